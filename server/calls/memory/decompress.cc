// SPDX-License-Identifier: Apache-2.0
// Batches of decompressions. The partner is client-shim/cuda/memory/decompress.cc.
#include <vector>

#include "generated/server/driver_api.h"
#include "server/state/serve.h"
#include "server/state/session.h"

namespace farcall::server {

Status Serve_cuMemBatchDecompressAsync(ServeCall& call) {
  CUstream stream = call.ResolveStream(call.in.Get<uint64_t>());
  size_t count = call.in.GetCount(44);
  std::vector<CUmemDecompressParams> batch(count);
  for (CUmemDecompressParams& params : batch) {
    auto source = call.in.Get<uint64_t>();
    params.srcNumBytes = call.in.Get<uint64_t>();
    auto target = call.in.Get<uint64_t>();
    params.dstNumBytes = call.in.Get<uint64_t>();
    auto written = call.in.Get<uint64_t>();
    params.algo = static_cast<CUmemDecompressAlgorithm>(call.in.Get<uint32_t>());
    if (!call.in.ok()) return call.Malformed("operation");
    params.src = reinterpret_cast<const void*>(call.ResolveAddress(source, params.srcNumBytes));
    params.dst = reinterpret_cast<void*>(call.ResolveAddress(target, params.dstNumBytes));
    params.dstActBytes =
        reinterpret_cast<cuuint32_t*>(call.ResolveAddress(written, sizeof(cuuint32_t)));
    if (!call.ready()) return call.RejectStatus();
  }
  if (!call.in.Done() || count == 0) return call.Malformed("body");
  if (!call.ready()) return call.RejectStatus();
  if (call.api.cuMemBatchDecompressAsync == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  size_t wrong = 0;
  call.result = call.api.cuMemBatchDecompressAsync(batch.data(), count, 0, &wrong, stream);
  return {};
}

}  // namespace farcall::server
