// SPDX-License-Identifier: Apache-2.0
// poll(2) with a deadline on the steady clock.
#pragma once

#include <poll.h>

#include <span>

#include "transport/channel.h"

namespace farcall {

// True if an event came; false at the deadline. Interrupted waits go on.
bool PollUntil(std::span<pollfd> fds, Clock::time_point deadline);

}  // namespace farcall
