// SPDX-License-Identifier: Apache-2.0
// cuda.h with every version of every entry under its exported name, and our definitions of them
// visible.
#pragma once

#define __CUDA_API_VERSION_INTERNAL
#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

namespace farcall::cpu_device {

// A _ptsz entry's stream: 0 means the calling thread's own.
inline CUstream Ptsz(CUstream stream) {
  return stream == nullptr ? CU_STREAM_PER_THREAD : stream;
}

}  // namespace farcall::cpu_device
