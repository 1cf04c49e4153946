// SPDX-License-Identifier: Apache-2.0
// Devices and their primary contexts, as the runtime sees them.
#pragma once

#include "client-shim/cudart/enter.h"

namespace farcall::cudart {

inline constexpr int kMaxDevices = 64;

int DeviceCount();
// The device that the thread's calls go to: of the current context, else the chosen one. Needs the
// driver.
cudaError_t CurrentDevice(int* device);
// The device's primary context, retained once for the process.
cudaError_t PrimaryContext(int device, CUcontext* context);
// Counts devices at the end of StartDriver.
cudaError_t FindDevices();

}  // namespace farcall::cudart
