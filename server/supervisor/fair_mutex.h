// SPDX-License-Identifier: Apache-2.0
// A mutex that goes to whoever waits longest. The supervisor's loop takes it again at once: with
// std::mutex, threads that let clients in could wait for seconds while workers send a lot.
#pragma once

#include <cstdint>
#include <mutex>

#include "sync/cond_var.h"

namespace farcall::server {

class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const uint64_t turn = last_++;
    changed_.wait(lock, [&] { return turn == next_; });
  }
  void unlock() {
    {
      std::lock_guard lock(mutex_);
      ++next_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;  // below
  CondVar changed_;
  uint64_t last_ = 0, next_ = 0;
};

}  // namespace farcall::server
