// SPDX-License-Identifier: Apache-2.0
// Jobs whose memory does not fit the simulated device together, moved by the server's own scheduler
// (server/leases/swap_scheduler.h), against the same jobs one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "quota/compute_quota.h"

namespace farcall::sharing {

// Works on the device, then on its host, in turns.
struct SwapJob {
  uint64_t bytes = 0;
  quota::Ns device_ns = 0, host_ns = 0;
  int turns = 0;
};

struct SwapTrial {
  uint64_t device_bytes = 0, host_bytes = 0;
  double bytes_per_ns = 50;  // of one move; moves of several sessions divide nothing
  std::vector<SwapJob> jobs;
};

struct SwapResult {
  quota::Ns ended_at = 0;   // all of them
  quota::Ns serial_ns = 0;  // one after the other, alone
  quota::Ns moving_ns = 0;  // of all moves
  uint64_t moves = 0;
  bool finished = false;
};

SwapResult Run(const SwapTrial& trial);

}  // namespace farcall::sharing
