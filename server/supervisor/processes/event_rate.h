// SPDX-License-Identifier: Apache-2.0
// So many events a second, and at most a burst at once.
#pragma once

#include <algorithm>
#include <chrono>

namespace farcall::server {

class EventRate {
 public:
  using Time = std::chrono::steady_clock::time_point;

  EventRate(double per_second, double burst, Time now)
      : per_second_(per_second), burst_(burst), left_(burst), at_(now) {}

  // False: there were too many.
  bool Take(Time now) {
    const std::chrono::duration<double> since = now - at_;
    at_ = now;
    left_ = std::min(left_ + since.count() * per_second_, burst_);
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double per_second_, burst_, left_;
  Time at_;
};

}  // namespace farcall::server
