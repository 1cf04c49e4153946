// SPDX-License-Identifier: Apache-2.0
// How much of the device work of a low class may take at once beside a higher one: from how much
// the higher one is slowed down.
#pragma once

#include <algorithm>

#include "quota/compute_quota.h"

namespace farcall::quota {

// Additive increase, multiplicative decrease, on time: what higher work waited for lower work,
// over what it ran.
class BackgroundWindow {
 public:
  static constexpr Ns kLeast = 400 * kMicrosecond;  // less is eaten up by hand-overs
  static constexpr Ns kFirst = kMillisecond;
  static constexpr Ns kMax = 4 * kMillisecond;

  // Higher work began after it had waited `waited_ns` for lower work.
  void NoteWait(Ns waited_ns) { waited_ns_ += std::max<Ns>(waited_ns - kHandOver, 0); }
  // Higher work ran.
  void NoteRun(Ns busy_ns, Ns now);
  // A higher class has work, or has just had.
  void NoteActive(Ns now);
  bool beside_higher(Ns now) const { return now - active_at_ < kActiveFor; }
  // What one lease of a lower class may take now; kMax and more where nothing higher is about.
  Ns window_ns() const { return window_ns_; }

 private:
  static constexpr Ns kHandOver = 100 * kMicrosecond;  // of each wait: no window mends it
  static constexpr Ns kActiveFor = 100 * kMillisecond;
  static constexpr Ns kEvery = 50 * kMillisecond;

  Ns window_ns_ = kFirst;
  Ns waited_ns_ = 0, busy_ns_ = 0;
  Ns judged_at_ = 0;
  Ns active_at_ = -kActiveFor;
};

// How long the pauses of higher work are: a longer piece of lower work waits for one that fits it.
class GapPredictor {
 public:
  void NoteBusy(Ns now);
  void NoteIdle(Ns now);
  // What is surely left of the pause that is on, by the mean and how far they lie from it; 0 while
  // there is none, or when it lasts longer than they do.
  Ns LeftOfGap(Ns now) const;

 private:
  bool is_idle_ = false;
  Ns idle_since_ = 0;
  double mean_ns_ = 0, apart_ns_ = 0;
};

}  // namespace farcall::quota
