// SPDX-License-Identifier: Apache-2.0
// One session in its worker's process: the device library, the session's loop, the control thread.
#pragma once

#include <memory>
#include <string>

#include "server/worker/sandbox/worker_setup.h"
#include "server/worker/warm_worker.h"
#include "transport/channel.h"
#include "transport/link.h"

namespace farcall::server {

// Serves the session to its end. `images`: the tenant's folder, -1: none. `channel`: the client's.
// `warm`: the device library, loaded before; nullptr: it is loaded here.
//   Thread  becomes the issue thread; others may still run when it returns
void RunSession(WorkerSetup setup, int images, std::unique_ptr<Channel> channel,
                const WarmDevice* warm);
// The worker's last word to the supervisor.
void TellEnd(int control, const std::string& why, const Link::Counters& wire = {});

}  // namespace farcall::server
