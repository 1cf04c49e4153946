// SPDX-License-Identifier: Apache-2.0
#include "quota/memory/swap_policy.h"

#include <algorithm>
#include <tuple>

#include "quota/memory/residency.h"

namespace farcall::quota {

namespace {

bool MayLeave(const SwapCandidate& candidate, Priority asker, Ns now) {
  if (candidate.is_pinned || candidate.bytes == 0 || candidate.priority > asker) return false;
  if (candidate.idle_since == SwapCandidate::kBusy && candidate.priority == asker) return false;
  return now - candidate.resident_since >= LeastResidency(candidate.switch_cost_ns);
}

}  // namespace

std::vector<uint64_t> ChooseVictims(std::vector<SwapCandidate> candidates, uint64_t wanted_bytes,
                                    Priority asker, uint64_t host_free_bytes, Ns now) {
  std::erase_if(candidates,
                [&](const SwapCandidate& candidate) { return !MayLeave(candidate, asker, now); });
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return std::tie(a.priority, a.idle_since, a.bytes, a.vgpu) <
           std::tie(b.priority, b.idle_since, b.bytes, b.vgpu);
  });
  std::vector<SwapCandidate> chosen;
  uint64_t freed = 0;
  for (const SwapCandidate& candidate : candidates) {
    if (freed >= wanted_bytes) break;
    chosen.push_back(candidate);
    freed += candidate.bytes;
  }
  if (freed < wanted_bytes) return {};
  // What a later, larger one made needless stays.
  std::vector<uint64_t> victims;
  uint64_t moved = 0;
  for (const SwapCandidate& candidate : chosen) {
    if (freed - candidate.bytes >= wanted_bytes) {
      freed -= candidate.bytes;
      continue;
    }
    victims.push_back(candidate.vgpu);
    moved += candidate.bytes;
  }
  return moved <= host_free_bytes ? victims : std::vector<uint64_t>();
}

}  // namespace farcall::quota
