// SPDX-License-Identifier: Apache-2.0
// What a launch and a kernel node have in common.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "client-shim/cuda/launch/launch_check.h"
#include "client-shim/cuda/state/module.h"

namespace farcall::client {

// Parameters by the kernel's layout into `out`, of info.parameter_bytes: one pointer each, or a
// packed buffer in `extra`.
CUresult PackParameters(const KernelInfo& info, void** values, void** extra, std::byte* out);
// Against the limits of the function and of the current context's device.
CUresult CheckLaunchOf(const Function& function, const LaunchShape& shape);

}  // namespace farcall::client
