// SPDX-License-Identifier: Apache-2.0
// The copies' engine: inline bytes, bulk pieces, landing places. Streams here are wire values.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace farcall::client {

inline constexpr uint64_t kCopyPieceBytes = 4u << 20;

// The source may be reused when this returns. `settle`: returns only when the device has the bytes.
CUresult CopyToDevice(CUdeviceptr dst, const void* src, size_t bytes, uint64_t stream, bool settle);
// `wait`: returns when the bytes have landed; else they land before any later completion is
// reported.
CUresult CopyToHost(void* dst, CUdeviceptr src, size_t bytes, uint64_t stream, bool wait);
CUresult CopyOnDevice(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream);
// Host to host, in the stream's order.
CUresult CopyOnHost(void* dst, const void* src, size_t bytes, uint64_t stream);

}  // namespace farcall::client
