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

// A device's and a function's bounds.
struct LaunchLimits {
  uint32_t max_grid[3];
  uint32_t max_block[3];
  uint32_t max_threads;       // per block, of the device
  uint32_t function_threads;  // of the function; 0 = no own bound
  uint32_t max_dynamic_shared;
};

//   Errors  INVALID_VALUE (a dimension is 0 or over the device's; too much shared memory),
//           LAUNCH_OUT_OF_RESOURCES (more threads than the function can have)
CUresult CheckLaunch(const LaunchShape& shape, const LaunchLimits& limits);

}  // namespace farcall::client
