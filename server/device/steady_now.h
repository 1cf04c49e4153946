// SPDX-License-Identifier: Apache-2.0
// The clock that device time is shared by: the same in supervisor and workers.
#pragma once

#include <chrono>

#include "quota/compute_quota.h"
#include "transport/channel.h"

namespace farcall::server {

inline quota::Ns SteadyNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

}  // namespace farcall::server
