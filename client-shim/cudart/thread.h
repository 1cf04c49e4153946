// SPDX-License-Identifier: Apache-2.0
// What each thread of the application has: its last error, its device, the configuration of the
// launch being made.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace farcall::cudart {

// Which stream NULL means: the legacy one, or the thread's own (`_ptds`, `_ptsz`).
enum class Side : bool { kLegacy, kPerThread };

inline constexpr int kNoDevice = -1;

struct ThreadState {
  cudaError_t last = cudaSuccess;
  int device = kNoDevice;     // chosen by cudaSetDevice; kNoDevice: none so far
  CUcontext bound = nullptr;  // the primary context made current for `bound_device`
  int bound_device = kNoDevice;
  unsigned reset_epoch = 0;  // how many resets this thread has seen
};

// Of the general model: the static block has little room left for a library that is loaded late.
inline thread_local constinit ThreadState t_thread;

inline cudaError_t FromDriver(CUresult result) {
  return static_cast<cudaError_t>(result);  // one numbering since CUDA 10.1
}
inline cudaError_t FromDriver(cudaError_t error) {
  return error;
}

// Notes `result` as the thread's last error unless it is success, or says that work is still under
// way, which is no error.
template <typename Result>
inline cudaError_t Keep(Result result) {
  const cudaError_t error = FromDriver(result);
  if (error != cudaSuccess && error != cudaErrorNotReady) [[unlikely]]
    t_thread.last = error;
  return error;
}

inline cudaStream_t PerThread(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace farcall::cudart
