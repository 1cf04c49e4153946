// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "client-shim/cudart/enter.h"

namespace farcall::cudart {

// The runtime's code for a launch that the driver refused.
cudaError_t LaunchError(CUresult result, const dim3& grid, const dim3& block);
cudaError_t ToDriverConfig(const cudaLaunchConfig_t& from, Side side, CUlaunchConfig* to);

}  // namespace farcall::cudart
