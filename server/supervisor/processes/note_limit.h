// SPDX-License-Identifier: Apache-2.0
// How often what strangers do is written down: a flood of them must fill no log.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>

#include "server/supervisor/processes/event_rate.h"

namespace farcall::server {

class NoteLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Nothing: this one is not noted. Else how many were not since the last that was.   Thread  any
  std::optional<uint64_t> Take(Time now) {
    std::lock_guard lock(mutex_);
    if (!rate_.Take(now)) {
      ++held_back_;
      return std::nullopt;
    }
    const uint64_t held_back = held_back_;
    held_back_ = 0;
    return held_back;
  }

 private:
  static constexpr double kBurst = 100, kPerSecond = 10;
  std::mutex mutex_;
  EventRate rate_{kPerSecond, kBurst, Time{}};
  uint64_t held_back_ = 0;
};

}  // namespace farcall::server
