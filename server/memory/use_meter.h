// SPDX-License-Identifier: Apache-2.0
// How much device memory a session's program has in use: what is charged for it, less the credit it
// has not spent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "proto/wire.h"

namespace farcall::server {

//   Thread  any
class UseMeter {
 public:
  void Charged(int device, int64_t bytes) { Change(device, bytes, 0); }
  // Credit that nothing lies in grew or shrank. What grows is told before it is charged, so that it
  // never counts as used.
  void Unspent(int device, int64_t bytes) { Change(device, 0, bytes); }

  // That much unspent credit is about to be refunded. It is told before the refund, so that nobody
  // counts it both as free and as unspent; Unspent() follows the refund.
  void Returning(int device, uint64_t bytes) {
    if (device < 0 || !tell_) return;
    std::lock_guard lock(mutex_);
    Use& use = uses_[device];
    TellLocked(device, &use, use.unspent - static_cast<int64_t>(bytes));
  }

  // `tell` hears how much credit is unspent whenever that has changed by a chunk or more.
  //   Before the first use
  void OnUnspent(std::function<void(int device, uint64_t bytes)> tell) { tell_ = std::move(tell); }

  // The most that was in use at once, of each device.
  std::map<int, uint64_t> Peaks() const {
    std::lock_guard lock(mutex_);
    std::map<int, uint64_t> peaks;
    for (const auto& [device, use] : uses_) peaks[device] = static_cast<uint64_t>(use.peak);
    return peaks;
  }

 private:
  struct Use {
    int64_t charged = 0, unspent = 0, peak = 0, told = 0;
  };

  void Change(int device, int64_t charged, int64_t unspent) {
    if (device < 0) return;  // host memory
    std::lock_guard lock(mutex_);
    Use& use = uses_[device];
    use.charged += charged;
    use.unspent += unspent;
    use.peak = std::max(use.peak, use.charged - use.unspent);
    if (tell_) TellLocked(device, &use, use.unspent);
  }

  void TellLocked(int device, Use* use, int64_t unspent) {
    if (std::abs(unspent - use->told) >= static_cast<int64_t>(kChunkGranularityBytes)) {
      use->told = unspent;
      tell_(device, static_cast<uint64_t>(std::max<int64_t>(unspent, 0)));
    }
  }

  mutable std::mutex mutex_;
  std::map<int, Use> uses_;
  std::function<void(int, uint64_t)> tell_;
};

}  // namespace farcall::server
