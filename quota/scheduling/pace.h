// SPDX-License-Identifier: Apache-2.0
// How long work takes by the clock, over the device time it is charged: more, where the device
// idles between its pieces. Pauses of others are of the clock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "quota/compute_quota.h"

namespace farcall::quota {

class Pace {
 public:
  static constexpr uint32_t kLeastMilli = 1000, kMaxMilli = 8000;

  void Note(Ns clock_ns, Ns busy_ns) {
    clock_ns_ = kKept * clock_ns_ + static_cast<double>(std::max<Ns>(clock_ns, 0));
    busy_ns_ = kKept * busy_ns_ + static_cast<double>(std::max<Ns>(busy_ns, 0));
  }
  uint32_t milli() const {
    double milli = busy_ns_ > 0 ? 1000 * clock_ns_ / busy_ns_ : kLeastMilli;
    return static_cast<uint32_t>(std::clamp<double>(milli, kLeastMilli, kMaxMilli) + 0.5);
  }
  // What `busy_ns` of device time take.
  Ns ByTheClock(Ns busy_ns) const { return busy_ns / 1000 * milli(); }

 private:
  static constexpr double kKept = 0.9;

  double clock_ns_ = 0, busy_ns_ = 0;
};

}  // namespace farcall::quota
