// SPDX-License-Identifier: Apache-2.0
// How long a thread looks for something again and again before it sleeps. A sleep costs a wake-up
// (tens of microseconds), which most answers do not take. But where the peer needs this very
// processor, spinning keeps the answer away, and a sleep is what brings it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace farcall {

// Spins as long as answers have taken of late, by the estimate of a TCP retransmission timer (RFC
// 6298): a smoothed mean, and how far waits stray from it. Once several spins in a row have found
// nothing, few waits spin, and those tell when it pays again.
//
// There is no sched_yield in a spin, though it would let a peer on the same processor run: with
// other work on the machine the scheduler makes who yields wait for whole time slices of it (4 ms a
// round trip, measured), while one that sleeps runs as soon as its answer is there.
//   Thread  one at a time
class SpinPolicy {
 public:
  using Ns = std::chrono::nanoseconds;

  // `most`: no wait spins for longer; zero: none spins.
  explicit SpinPolicy(Ns most) : most_(most) {}

  // How long the wait that begins should spin; zero: sleep at once.
  Ns Budget() {
    if (misses_ < kMisses)
      return is_known_ ? std::min(most_, mean_ + 4 * deviation_ + kSlack) : most_;
    if (++passed_over_ < retry_) return Ns::zero();
    passed_over_ = 0;
    return most_;
  }

  // The spin found what it looked for, after so long.
  void Found(Ns waited) {
    misses_ = 0;
    retry_ = kFirstRetry;
    Sample(std::min(waited, most_));
  }
  // It used up its budget in vain.
  void Missed() {
    if (misses_ >= kMisses)
      retry_ = std::min(2 * retry_, kLastRetry);
    else
      ++misses_;
    Sample(most_);
  }

  // Spins in vain before most waits sleep at once. Then one in kFirstRetry spins, and seldomer each
  // time that is in vain too, down to one in kLastRetry.
  static constexpr uint32_t kMisses = 4, kFirstRetry = 16, kLastRetry = 128;
  // Of a look: the estimate of a wait that never changes would end just before its answer.
  static constexpr Ns kSlack{2000};

 private:
  void Sample(Ns waited) {
    if (!is_known_) {
      is_known_ = true;
      mean_ = waited;
      deviation_ = waited / 2;
      return;
    }
    Ns error = waited - mean_;
    mean_ += error / 8;
    deviation_ += (std::max(error, -error) - deviation_) / 4;
  }

  const Ns most_;
  Ns mean_{}, deviation_{};
  bool is_known_ = false;
  uint32_t misses_ = 0, passed_over_ = 0, retry_ = kFirstRetry;
};

// Looks until `look()` is true or the budget, which the policy gave for this wait, is used up, and
// tells the policy. Looks not at all with a budget of zero. Whether it was true.
template <typename Look>
bool Spin(SpinPolicy& policy, SpinPolicy::Ns budget, Look&& look) {
  if (budget == SpinPolicy::Ns::zero()) return false;
  auto begin = std::chrono::steady_clock::now();
  for (;;) {
    bool found = look();
    SpinPolicy::Ns waited = std::chrono::steady_clock::now() - begin;
    if (found) {
      policy.Found(waited);
      return true;
    }
    if (waited >= budget) {
      policy.Missed();
      return false;
    }
  }
}
template <typename Look>
bool Spin(SpinPolicy& policy, Look&& look) {
  return Spin(policy, policy.Budget(), std::forward<Look>(look));
}

}  // namespace farcall
