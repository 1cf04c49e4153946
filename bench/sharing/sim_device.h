// SPDX-License-Identifier: Apache-2.0
// A simulated GPU: kernels of one tenant in order, tenants in slices, a price for each switch.
// Timers are perfect and nothing interferes in caches or memory: only a card can tell that.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "bench/sharing/event_queue.h"

namespace farcall::sharing {

// What a program launches.
struct Piece {
  uint64_t key = 0;
  Ns duration_ns = 0;
  uint32_t blocks = 1, threads = 1;
};

class SimDevice {
 public:
  static constexpr Ns kSlice = 2 * quota::kMillisecond;
  static constexpr Ns kSwitch = 50 * quota::kMicrosecond;

  SimDevice(EventQueue& time, size_t tenants) : time_(time), tenants_(tenants) {}

  void Submit(size_t tenant, Ns duration_ns, std::function<void()> done);
  // Device time it had so far, the running slice included.
  Ns busy_ns(size_t tenant) const;
  size_t queued(size_t tenant) const { return tenants_[tenant].queue.size(); }
  uint64_t switches() const { return switches_; }

 private:
  struct Work {
    Ns left_ns = 0;
    std::function<void()> done;
  };
  struct Tenant {
    std::deque<Work> queue;
    Ns busy_ns = 0;
  };
  void RunNext();
  void EndRun();

  EventQueue& time_;
  std::vector<Tenant> tenants_;
  bool running_ = false;
  size_t current_ = 0;
  Ns run_begun_ = 0, run_ns_ = 0;  // of the work on the device now
  Ns slice_left_ = 0;
  uint64_t switches_ = 0;
};

}  // namespace farcall::sharing
