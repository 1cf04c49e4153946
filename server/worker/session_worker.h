// SPDX-License-Identifier: Apache-2.0
// One session in its worker's process: the device library, the session's loop, the control thread.
#pragma once

#include <string>

#include "server/worker/worker_setup.h"
#include "transport/link.h"

namespace farcall::server {

// Serves the session to its end. `images`: the tenant's folder, -1: none. `socket`: the client's.
//   Thread  becomes the issue thread; others may still run when it returns
void RunSession(WorkerSetup setup, int images, int socket);
// The worker's last word to the supervisor.
void TellEnd(int control, const std::string& why, const Link::Counters& wire = {});
// The process's standard output, to which device printf writes, becomes a pipe: the end to read.
int CatchOutput();

}  // namespace farcall::server
