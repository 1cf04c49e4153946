// SPDX-License-Identifier: Apache-2.0
#include "quota/scheduling/background_window.h"

#include <algorithm>
#include <cmath>

namespace farcall::quota {

namespace {

constexpr double kTolerated = 0.03, kBad = 0.09;  // slowdown of the higher work
constexpr double kDecrease = 0.67, kRetreat = 0.1;
constexpr Ns kIncrease = 100 * kMicrosecond;
constexpr double kNewGap = 0.25;
constexpr double kApart = 0.25;  // mean deviations: a pause that ends early costs one piece

}  // namespace

void BackgroundWindow::NoteActive(Ns now) {
  if (!beside_higher(now)) {
    // It comes anew: begin with care, judge what follows only.
    window_ns_ = std::min(window_ns_, kFirst);
    waited_ns_ = busy_ns_ = 0;
    judged_at_ = now;
  }
  active_at_ = now;
}

void BackgroundWindow::NoteRun(Ns busy_ns, Ns now) {
  busy_ns_ += busy_ns;
  if (now - judged_at_ < kEvery || busy_ns_ == 0) return;
  double slowdown = static_cast<double>(waited_ns_) / static_cast<double>(busy_ns_);
  if (slowdown > kBad)
    window_ns_ = static_cast<Ns>(static_cast<double>(window_ns_) * kRetreat);
  else if (slowdown > kTolerated)
    window_ns_ = static_cast<Ns>(static_cast<double>(window_ns_) * kDecrease);
  else
    window_ns_ += kIncrease;
  window_ns_ = std::clamp(window_ns_, kLeast, kMax);
  waited_ns_ = busy_ns_ = 0;
  judged_at_ = now;
}

void GapPredictor::NoteIdle(Ns now) {
  if (!is_idle_) {
    is_idle_ = true;
    idle_since_ = now;
  }
}

void GapPredictor::NoteBusy(Ns now) {
  if (is_idle_) {
    is_idle_ = false;
    double apart = static_cast<double>(now - idle_since_) - mean_ns_;
    mean_ns_ += kNewGap * apart;
    apart_ns_ += kNewGap * (std::abs(apart) - apart_ns_);
  }
}

Ns GapPredictor::LeftOfGap(Ns now) const {
  auto sure = static_cast<Ns>(mean_ns_ - kApart * apart_ns_);
  return is_idle_ ? std::max<Ns>(sure - (now - idle_since_), 0) : 0;
}

}  // namespace farcall::quota
