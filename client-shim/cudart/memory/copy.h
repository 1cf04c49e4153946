// SPDX-License-Identifier: Apache-2.0
// The runtime's copies as the driver's records.
#pragma once

#include "client-shim/cudart/enter.h"

namespace farcall::cudart {

inline bool IsKind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}
CUmemorytype SourceType(cudaMemcpyKind kind);
CUmemorytype TargetType(cudaMemcpyKind kind);

// Bytes of an element of the array, all channels together.
cudaError_t ElementBytes(cudaArray_const_t array, size_t* bytes);

// Extents and positions count elements where an array takes part, bytes elsewhere.
cudaError_t ToDriver(const cudaMemcpy3DParms& from, CUDA_MEMCPY3D* to);
cudaError_t ToDriver(const cudaMemcpy3DPeerParms& from, CUDA_MEMCPY3D_PEER* to);
// Back, for what a graph node holds.
cudaError_t FromDriver(const CUDA_MEMCPY3D& from, cudaMemcpy3DParms* to);
// A linear copy as a box of one row.
CUDA_MEMCPY3D Linear(void* dst, const void* src, size_t count, cudaMemcpyKind kind);

cudaError_t Copy2D(Side side, const CUDA_MEMCPY2D& copy);
cudaError_t Copy2DAsync(const CUDA_MEMCPY2D& copy, cudaStream_t stream);

}  // namespace farcall::cudart
