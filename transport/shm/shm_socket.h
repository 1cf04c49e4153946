// SPDX-License-Identifier: Apache-2.0
// The UNIX socket at which connections over shared memory begin.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/url.h"

namespace farcall {

// `shm:///path`. A listener's channels carry bytes over the socket, and say RingState when they are
// handed over: no ring is made before somebody has been let in. A listener removes its path at the
// end, and one that a killed server left. Only the user may connect; OpenToUsers lifts that.
Result<std::unique_ptr<Channel>> DialShm(const Url& url, Clock::time_point deadline);
Result<std::unique_ptr<Listener>> ListenShm(const Url& url);

// Every user may connect who reaches the path.   Errors  kUnavailable
Status OpenToUsers(const std::string& path);

}  // namespace farcall
