// SPDX-License-Identifier: Apache-2.0
// What is said once, however often it happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "client-shim/core/fork_lock.h"

namespace farcall::client {

// Bounded: after so many of its own kind nothing is new any more.
//   Thread  any
class SaidOnce {
 public:
  static constexpr size_t kMaxKinds = 256;

  // Whether this has not been said of the call.
  bool IsNew(uint16_t call, const std::string& text) {
    std::lock_guard lock(mutex_);
    return said_.size() < kMaxKinds && said_.emplace(call, text).second;
  }

 private:
  ForkLock mutex_;
  std::set<std::pair<uint16_t, std::string>> said_;
};

}  // namespace farcall::client
