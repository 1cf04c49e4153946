// SPDX-License-Identifier: Apache-2.0
// What is said once, however often it happens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "client-shim/core/report/fork_lock.h"

namespace farcall::client {

// Never destroyed, as its lock is not.
//   Thread  any
class SaidOnce {
 public:
  // After `max` texts nothing is new any more: give one where a peer chooses them.
  explicit SaidOnce(size_t max = SIZE_MAX) : max_(max) {}

  // Whether this has not been said.
  bool IsNew(const std::string& text) {
    std::lock_guard lock(mutex_);
    return said_.size() < max_ && said_.insert(text).second;
  }

 private:
  const size_t max_;
  ForkLock mutex_;
  std::set<std::string> said_;
};

}  // namespace farcall::client
