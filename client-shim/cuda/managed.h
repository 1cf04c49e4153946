// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace farcall::client {

// False: no managed memory begins there. Waits for the device.
bool FreeManaged(CUdeviceptr pointer, CUresult* status);

}  // namespace farcall::client
