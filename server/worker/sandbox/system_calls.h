// SPDX-License-Identifier: Apache-2.0
// Which system calls a worker may make: a seccomp filter with a list of what is allowed.
#pragma once

#include "proto/status.h"

namespace farcall::server {

struct CallRules {
  enum class Sockets {
    kNone,     // what is connected already
    kUnix,     // an MPS client connects to its daemon
    kAccept,   // of a socket that listens already
    kNetwork,  // and of IP, in both directions
    kUcx,      // of IP in both directions, and what a driver looks for at its start
  };
  Sockets sockets = Sockets::kNone;
  bool reports = false;  // a call that is not on the list is logged, and made
};

// Whether `serve --worker-calls report` has started this process; it says so by a variable.
inline constexpr char kReportsCallsVariable[] = "FARCALL_WORKER_CALLS";
bool ReportsCalls();

// After the driver's start, in a session with kUcx: no socket of this machine's is made from here
// on, and so none connected to. For all threads.
//   Errors  kUnavailable
Status RefuseUnixSockets();

// For this thread and those it starts, for good. A call that is not on the list answers ENOSYS, as
// an older kernel would, so that libraries take their other way. Children cannot be made, other
// processes not be signalled (nor by the kernel, as owners of a descriptor), sockets not be opened.
// Calls of another architecture or ABI (i386, x32) answer ENOSYS in any case. Needs
// PR_SET_NO_NEW_PRIVS.
//   Errors  kUnavailable: the kernel has no seccomp filters, or none that can report
//   Thread  the only one
Status FilterSystemCalls(const CallRules& rules);

}  // namespace farcall::server
