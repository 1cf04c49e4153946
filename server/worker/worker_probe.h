// SPDX-License-Identifier: Apache-2.0
// What a worker answers that only looks at the devices, for the supervisor, which loads no driver.
#pragma once

#include <string>

#include "proto/status.h"

namespace farcall::server {

// Puts this process into a worker's sandbox, without caches, before it loads the library. It knows
// nothing of any tenant, so it goes on without Landlock.
//   Errors  kUnavailable   Thread  the only one
Status ConfineProbe(const std::string& library);

// Tells over the control socket what devices the libcuda at `path` has: a WELCOME in a memory file,
// or why there is none.   Returns  the exit code, 0 if told
int ProbeDevices(const std::string& path);

// The same of the UUIDs of its GPUs' MIG instances, one a line, of those that CUDA_VISIBLE_DEVICES
// names.
int ProbeMigDevices(const std::string& path);

}  // namespace farcall::server
