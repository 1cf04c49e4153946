// SPDX-License-Identifier: Apache-2.0
// Decompression in a stream's order: LZ4 blocks.
#include <lz4.h>

#include <memory>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {
namespace {

using DecompressBatch = std::vector<CUmemDecompressParams>;

// A block that is none leaves 0 bytes written.
void CUDA_CB Run(void* data) {
  const std::unique_ptr<DecompressBatch> batch(static_cast<DecompressBatch*>(data));
  for (const CUmemDecompressParams& one : *batch) {
    const int written =
        LZ4_decompress_safe(static_cast<const char*>(one.src), static_cast<char*>(one.dst),
                            static_cast<int>(one.srcNumBytes), static_cast<int>(one.dstNumBytes));
    *one.dstActBytes = written < 0 ? 0 : static_cast<cuuint32_t>(written);
  }
}

bool MayUse(const void* address, uint64_t bytes, int ordinal, bool write) {
  return bytes != 0 &&
         TheDriver().ranges.Accessible(reinterpret_cast<uint64_t>(address), bytes, ordinal, write);
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemBatchDecompressAsync(CUmemDecompressParams* params, size_t count, unsigned int flags,
                                   size_t* error_index, CUstream handle) {
  std::shared_ptr<Context> context;
  if (error_index != nullptr) *error_index = SIZE_MAX;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (params == nullptr || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture() != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const int ordinal = context->device().ordinal;
  if (!TheDriver().profile.decompresses()) return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < count; ++i) {
    const CUmemDecompressParams& one = params[i];
    if (one.algo == CU_MEM_DECOMPRESS_ALGORITHM_LZ4 && one.srcNumBytes <= kMaxDecompressBytes &&
        one.dstNumBytes <= kMaxDecompressBytes &&
        MayUse(one.src, one.srcNumBytes, ordinal, false) &&
        MayUse(one.dst, one.dstNumBytes, ordinal, true) &&
        MayUse(one.dstActBytes, sizeof(*one.dstActBytes), ordinal, true))
      continue;
    if (error_index != nullptr) *error_index = i;
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto batch = std::make_unique<DecompressBatch>(params, params + count);
  const CUresult result = SubmitOp(*stream, HostOp{Run, batch.get(), true}, How::kQueue);
  if (result == CUDA_SUCCESS) (void)batch.release();
  return result;
}

CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams* params, size_t count,
                                        unsigned int flags, size_t* error_index, CUstream handle) {
  return cuMemBatchDecompressAsync(params, count, flags, error_index, Ptsz(handle));
}

}  // extern "C"
