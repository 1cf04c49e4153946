// SPDX-License-Identifier: Apache-2.0
// What a worker may no longer ask of the kernel.
#pragma once

#include "proto/status.h"

namespace farcall::server {

// For this process and all it starts: running another program, looking into other processes, and
// changing the system answer EPERM; a foreign architecture's calls end the process. A driver finds
// its device nodes already made by the probe, which is not confined. Needs PR_SET_NO_NEW_PRIVS.
//   Errors  kUnavailable: the kernel has no seccomp filters
//   Thread  the only one
Status DenySystemCalls();

}  // namespace farcall::server
