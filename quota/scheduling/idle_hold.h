// SPDX-License-Identifier: Apache-2.0
// How long a lease is kept though there is nothing to run: a program that waits for each kernel
// comes back at once, one that thinks does not.
#pragma once

#include <algorithm>

#include "quota/compute_quota.h"

namespace farcall::quota {

class IdleHold {
 public:
  // All is done, nothing is queued.
  void NoteIdle(Ns now) {
    if (!is_idle_) {
      is_idle_ = true;
      idle_since_ = now;
    }
  }
  void NoteWork(Ns now) {
    if (is_idle_) {
      is_idle_ = false;
      mean_ns_ += (std::min(now - idle_since_, kLongPause) - mean_ns_) / 4;
    }
  }
  // From the beginning of the pause.
  Ns hold_ns() const { return mean_ns_ > kShortPause ? 0 : std::max(2 * mean_ns_, kLeastHold); }

 private:
  static constexpr Ns kShortPause = 500 * kMicrosecond, kLongPause = 10 * kMillisecond;
  static constexpr Ns kLeastHold = 100 * kMicrosecond;

  bool is_idle_ = false;
  Ns idle_since_ = 0;
  Ns mean_ns_ = 0;
};

}  // namespace farcall::quota
