// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/launch_check.h"

namespace farcall::client {

CUresult CheckLaunch(const LaunchShape& shape, const LaunchLimits& limits) {
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] - 1 >= limits.max_grid[i]) return CUDA_ERROR_INVALID_VALUE;  // 0 wraps
    if (shape.block[i] - 1 >= limits.max_block[i]) return CUDA_ERROR_INVALID_VALUE;
    threads *= shape.block[i];
  }
  if (threads > limits.max_threads) return CUDA_ERROR_INVALID_VALUE;
  if (shape.dynamic_shared > limits.max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  if (limits.function_threads != 0 && threads > limits.function_threads)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
