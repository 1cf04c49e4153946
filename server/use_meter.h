// SPDX-License-Identifier: Apache-2.0
// How much device memory a session's program has in use: what is charged for it, less the credit it
// has not spent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>

namespace farcall::server {

//   Thread  any
class UseMeter {
 public:
  void Charged(int device, int64_t bytes) { Change(device, bytes, 0); }
  // Credit that nothing lies in grew or shrank. What grows is told before it is charged, so that it
  // never counts as used.
  void Unspent(int device, int64_t bytes) { Change(device, 0, bytes); }

  // The most that was in use at once, of each device.
  std::map<int, uint64_t> Peaks() const {
    std::lock_guard lock(mutex_);
    std::map<int, uint64_t> peaks;
    for (const auto& [device, use] : uses_) peaks[device] = static_cast<uint64_t>(use.peak);
    return peaks;
  }

 private:
  struct Use {
    int64_t charged = 0, unspent = 0, peak = 0;
  };

  void Change(int device, int64_t charged, int64_t unspent) {
    std::lock_guard lock(mutex_);
    Use& use = uses_[device];
    use.charged += charged;
    use.unspent += unspent;
    use.peak = std::max(use.peak, use.charged - use.unspent);
  }

  mutable std::mutex mutex_;
  std::map<int, Use> uses_;
};

}  // namespace farcall::server
