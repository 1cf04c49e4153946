// SPDX-License-Identifier: Apache-2.0
// What a worker may no longer ask of the kernel.
#pragma once

#include "proto/status.h"

namespace farcall::server {

// A worker speaks for a stranger: it gains no privileges, leaves no core of a tenant's memory
// behind, and ends when its supervisor says so, not by a terminal's signal.
void Confine();

// For this process and all it starts: running another program, looking into other processes, and
// changing the system answer EPERM; a foreign architecture's calls end the process. A driver finds
// its device nodes already made by the probe, which is not confined. Needs PR_SET_NO_NEW_PRIVS.
//   Errors  kUnavailable: the kernel has no seccomp filters
//   Thread  the only one
Status DenySystemCalls();

}  // namespace farcall::server
