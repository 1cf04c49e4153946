// SPDX-License-Identifier: Apache-2.0
// Whose memory leaves the device to make room: the lowest class, then who idles longest, then the
// least to move.
#pragma once

#include <cstdint>
#include <vector>

#include "quota/compute_quota.h"

namespace farcall::quota {

struct SwapCandidate {
  uint64_t vgpu = 0;
  Priority priority = Priority::kNormal;
  uint64_t bytes = 0;  // it would free
  Ns idle_since = 0;   // kBusy: it works
  Ns resident_since = 0;
  Ns switch_cost_ns = 0;   // to bring it back
  bool is_pinned = false;  // exported memory, textures over arrays, a graph with memory that runs
  static constexpr Ns kBusy = INT64_MAX;
};

// The vGPUs to move out so that `wanted_bytes` come free, in that order; none if they would not do,
// or the host has no room for what leaves. Nobody leaves within its least residency, none of a
// higher class than `asker`'s, and none that works unless it is of a lower one.
std::vector<uint64_t> ChooseVictims(std::vector<SwapCandidate> candidates, uint64_t wanted_bytes,
                                    Priority asker, uint64_t host_free_bytes, Ns now);

}  // namespace farcall::quota
