// SPDX-License-Identifier: Apache-2.0
// How long a vGPU keeps the device when the memory of all does not fit: quanta that pay for their
// swaps, and when that stops paying.
#pragma once

#include <cstdint>
#include <deque>

#include "quota/compute_quota.h"

namespace farcall::quota {

// What moving one vGPU out and another in costs: the links work both ways at once.
Ns SwitchCost(uint64_t out_bytes, uint64_t in_bytes, uint64_t handles, double bytes_per_ns,
              Ns map_ns);
// The quantum that keeps switching at the part `overhead` of the time: c (1 - f) / f, 1 to 60 s.
Ns SwapQuantum(Ns switch_cost, double overhead);
// The least a vGPU stays once its memory is in.
Ns LeastResidency(Ns switch_cost);

// Watches demand and swaps; says whether to rotate by quanta, how long, and whether to let more in.
class ThrashWatch {
 public:
  static constexpr double kOverhead = 0.05;

  explicit ThrashWatch(uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  // What all active vGPUs together want resident.
  void NoteDemand(uint64_t bytes, Ns now);
  // A swap took from `begin` to `end`.
  void NoteSwap(Ns begin, Ns end);

  // The sum does not fit, or did not a moment ago.
  bool swaps() const { return swaps_; }
  // Of the last minute, thousandths spent on swapping.
  uint32_t SwapMilli(Ns now) const;
  // The quantum for a switch of this cost.
  Ns Quantum(Ns switch_cost) const;
  // False: swapping stays too much even at the longest quanta; no more sessions beyond the memory.
  bool takes_more() const { return takes_more_; }
  // Once in a while.
  void Judge(Ns now);

 private:
  struct Swap {
    Ns begin = 0, end = 0;
  };
  const uint64_t budget_bytes_;
  bool swaps_ = false;
  Ns low_since_ = -1;  // demand is well below the budget since then
  std::deque<Swap> recent_;
  int doublings_ = 0;
  bool takes_more_ = true;
  Ns judged_at_ = 0;
};

}  // namespace farcall::quota
