// SPDX-License-Identifier: Apache-2.0
// Batches of prefetches and discards of managed memory: each operation is what the single call
// does. A discard promises that nobody reads the bytes; leaving them is one way to keep it.
#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/session_face.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Batch {
  const CUdeviceptr* addresses;
  const size_t* sizes;
  size_t count;
};

CUresult CheckBatch(const Batch& batch, unsigned long long flags, CUstream stream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (flags != 0 || wire == kLegacyStream || batch.addresses == nullptr || batch.sizes == nullptr ||
      batch.count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < batch.count; ++i) {
    Allocation found;
    if (batch.sizes[i] == 0 || !Memory().Holds(batch.addresses[i], batch.sizes[i], &found) ||
        found.kind != MemoryKind::kManaged)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// Location k is for the operations from starts[k] up to the next start.
struct Places {
  const CUmemLocation* locations;
  const size_t* starts;
  size_t count;
};

CUresult PrefetchAll(const Batch& batch, const Places& places, unsigned long long flags,
                     CUstream stream) {
  CUresult status = CheckBatch(batch, flags, stream);
  if (status != CUDA_SUCCESS) return status;
  if (places.locations == nullptr || places.starts == nullptr || places.count == 0 ||
      places.count > batch.count || places.starts[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t k = 0; k < places.count; ++k) {
    size_t end = k + 1 < places.count ? places.starts[k + 1] : batch.count;
    if (end <= places.starts[k] || end > batch.count) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = places.starts[k]; i < end; ++i) {
      status = Call_cuMemPrefetchAsync_v2(batch.addresses[i], batch.sizes[i], places.locations[k],
                                          0, stream);
      if (status != CUDA_SUCCESS) return status;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                      CUmemLocation* prefetchLocs, size_t* prefetchLocIdxs,
                                      size_t numPrefetchLocs, unsigned long long flags,
                                      CUstream hStream) {
  return PrefetchAll({dptrs, sizes, count}, {prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags,
                     hStream);
}

CUresult Call_cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                     unsigned long long flags, CUstream hStream) {
  return CheckBatch({dptrs, sizes, count}, flags, hStream);
}

CUresult Call_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count,
                                                CUmemLocation* prefetchLocs,
                                                size_t* prefetchLocIdxs, size_t numPrefetchLocs,
                                                unsigned long long flags, CUstream hStream) {
  return PrefetchAll({dptrs, sizes, count}, {prefetchLocs, prefetchLocIdxs, numPrefetchLocs}, flags,
                     hStream);
}

}  // namespace farcall::client
