// SPDX-License-Identifier: Apache-2.0
// The attributes of cuLaunchKernelEx: which there are, and what CUDA refuses about them at the
// launch.
#pragma once

#include <cuda.h>

#include "client-shim/cuda/launch/launch_check.h"

namespace farcall::client {

struct Function;

struct LaunchAttributes {
  static constexpr unsigned kMax = 32;
  // What the record carries.
  CUlaunchAttribute list[kMax];
  unsigned count = 0;
  // Recorded behind the kernel, which is later than they may be: when its blocks have triggered
  // them, or have all begun.
  CUevent events[kMax];
  unsigned event_count = 0;
};

//   Errors  INVALID_VALUE (an id that is none, too many), NOT_SUPPORTED (device-updatable nodes),
//           INVALID_HANDLE (an event that is none)
CUresult TakeAttributes(const CUlaunchConfig& config, LaunchAttributes* taken);

// Of a launch whose shape alone is right.
//   Errors  INVALID_CLUSTER_SIZE (a dimension is 0 or does not divide the grid, too many blocks,
//   none
//           where the kernel needs one), NOT_SUPPORTED (the device has no clusters, or no
//           cooperative launches), COOPERATIVE_LAUNCH_TOO_LARGE (more blocks than are resident at
//           once)
CUresult CheckAttributes(const Function& function, const LaunchShape& shape,
                         const CUlaunchAttribute* list, unsigned count);

}  // namespace farcall::client
