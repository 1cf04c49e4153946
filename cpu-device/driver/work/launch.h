// SPDX-License-Identifier: Apache-2.0
// Checks a launch against its kernel and the device, and collects its parameters.
#pragma once

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/op.h"

namespace farcall::cpu_device {

// Fills `op` for a launch of `function` with config as given; params from `kernel_params` (one
// pointer each) or `extra`.
//   Errors  INVALID_VALUE (zero or too large a size, more threads than the kernel declares, a
//           missing parameter), LAUNCH_OUT_OF_RESOURCES (machine code: more threads than its
//           registers allow), COOPERATIVE_LAUNCH_TOO_LARGE
CUresult PrepareLaunch(std::shared_ptr<Function> function, const LaunchConfig& config,
                       void** kernel_params, void** extra, KernelOp* op);

}  // namespace farcall::cpu_device
