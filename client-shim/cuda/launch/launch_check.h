// SPDX-License-Identifier: Apache-2.0
// What CUDA refuses at the launch itself, decided without asking the server.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace farcall::client {

struct LaunchShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t dynamic_shared;
};

struct DeviceLimits {
  uint32_t max_grid[3];
  uint32_t max_block[3];
  uint32_t max_threads;  // per block
  uint32_t registers;    // of a block
};

struct FunctionLimits {
  uint32_t max_threads;  // per block; 0 = no own bound
  uint32_t max_dynamic_shared;
  uint32_t registers;  // of a thread, in machine code; PTX has none
};

//   Errors  INVALID_VALUE (a dimension is 0 or over the device's; more threads than the function
//           declares; too much shared memory), LAUNCH_OUT_OF_RESOURCES (more threads than its
//           registers allow)
inline CUresult CheckLaunch(const LaunchShape& shape, const DeviceLimits& device,
                            const FunctionLimits& function) {
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] - 1 >= device.max_grid[i]) return CUDA_ERROR_INVALID_VALUE;  // 0 wraps
    if (shape.block[i] - 1 >= device.max_block[i]) return CUDA_ERROR_INVALID_VALUE;
    threads *= shape.block[i];
  }
  if (threads > device.max_threads) return CUDA_ERROR_INVALID_VALUE;
  if (shape.dynamic_shared > function.max_dynamic_shared) return CUDA_ERROR_INVALID_VALUE;
  if (function.max_threads != 0 && threads > function.max_threads) {
    // Given out by eights to whole warps.
    const uint64_t registers =
        uint64_t{(function.registers + 7) / 8 * 8} * ((threads + 31) / 32 * 32);
    return registers > device.registers ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                        : CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
