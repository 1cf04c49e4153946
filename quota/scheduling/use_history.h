// SPDX-License-Identifier: Apache-2.0
// Device time used in about the last second.
#pragma once

#include <array>
#include <cstddef>

#include "quota/compute_quota.h"

namespace farcall::quota {

class UseHistory {
 public:
  void Add(Ns busy_ns, Ns now) {
    Roll(now);
    slots_[static_cast<size_t>(slot_ % kSlots)] += busy_ns;
  }
  // Thousandths of the last second's device time.
  uint32_t Milli(Ns now) const {
    UseHistory rolled = *this;
    rolled.Roll(now);
    Ns busy = 0;
    for (Ns slot : rolled.slots_) busy += slot;
    // The slot that runs is counted for what it has seen.
    Ns span = (kSlots - 1) * kSlot + now % kSlot;
    return static_cast<uint32_t>(busy * kWholeMilli / span);
  }

 private:
  static constexpr Ns kSlot = 100 * kMillisecond;
  static constexpr Ns kSlots = 11;

  void Roll(Ns now) {
    Ns slot = now / kSlot;
    if (slot - slot_ >= kSlots) {
      slots_.fill(0);
      slot_ = slot;
    }
    while (slot_ < slot) {
      ++slot_;
      slots_[static_cast<size_t>(slot_ % kSlots)] = 0;
    }
  }

  std::array<Ns, kSlots> slots_{};
  Ns slot_ = 0;
};

}  // namespace farcall::quota
