// SPDX-License-Identifier: Apache-2.0
// The library's one state: how often it was initialised, and the way to the session of the
// libcuda.so.1 beside it.
#pragma once

#include <nvml.h>

#include "client-shim/core/nvml_channel.h"
#include "generated/proto/nvml_call.h"

namespace farcall::nvml {

inline constexpr int kMaxDevices = 256;

nvmlReturn_t Initialise();
nvmlReturn_t Shutdown();

// What an entry checks first: initialised, and a session that lives. A child forked before cuInit
// gets one of its own here.
nvmlReturn_t CheckReady();
// After CheckReady() succeeded.
const client::NvmlChannel& Channel();

// A CUresult of the channel's, as NVML would say it of a driver or device that is gone.
nvmlReturn_t FromCuda(int status);

// The server's number of a device; -1: no handle of ours.
int IndexOf(nvmlDevice_t device);
nvmlDevice_t HandleOf(int index);

// The answer of a function nobody serves: said once in the log, at `info`, as monitors try many.
nvmlReturn_t Refuse(NvmlCall call, nvmlReturn_t code);

}  // namespace farcall::nvml
