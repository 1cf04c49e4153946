// SPDX-License-Identifier: Apache-2.0
// Batches of decompressions by the device.
#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr size_t kMaxOperations = 16384;  // a record's

bool OnThisDevice(const void* address, uint64_t bytes) {
  Allocation found;
  return Memory().Holds(reinterpret_cast<uint64_t>(address), bytes, &found) &&
         found.kind == MemoryKind::kDevice && found.accessible;
}

bool MayRun(const CUmemDecompressParams& params, int algorithms, uint64_t longest) {
  for (unsigned char byte : params.padding)
    if (byte != 0) return false;
  // The hint for the output says how much of it the device may write.
  return (static_cast<int>(params.algo) & algorithms) != 0 && params.srcNumBytes != 0 &&
         params.srcNumBytes <= longest && params.dstNumBytes != 0 &&
         OnThisDevice(params.src, params.srcNumBytes) &&
         OnThisDevice(params.dst, params.dstNumBytes) &&
         OnThisDevice(params.dstActBytes, sizeof(*params.dstActBytes));
}

}  // namespace

CUresult Call_cuMemBatchDecompressAsync(CUmemDecompressParams* paramsArray, size_t count,
                                        unsigned int flags, size_t* errorIndex, CUstream stream) {
  if (errorIndex != nullptr) *errorIndex = SIZE_MAX;
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (paramsArray == nullptr || count == 0 || count > kMaxOperations || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(CurrentContext()->device);
  int algorithms = device->Attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK);
  if (algorithms == 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto longest =
      static_cast<uint64_t>(device->Attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH));
  Builder body;
  body.Put<uint64_t>(wire);
  body.Put<uint64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    const CUmemDecompressParams& params = paramsArray[i];
    if (!MayRun(params, algorithms, longest)) {
      if (errorIndex != nullptr) *errorIndex = i;
      return CUDA_ERROR_INVALID_VALUE;
    }
    body.Put<uint64_t>(reinterpret_cast<uint64_t>(params.src));
    body.Put<uint64_t>(params.srcNumBytes);
    body.Put<uint64_t>(reinterpret_cast<uint64_t>(params.dst));
    body.Put<uint64_t>(params.dstNumBytes);
    body.Put<uint64_t>(reinterpret_cast<uint64_t>(params.dstActBytes));
    body.Put<uint32_t>(params.algo);
  }
  return Post(CallId::cuMemBatchDecompressAsync, body.bytes());
}

}  // namespace farcall::client
