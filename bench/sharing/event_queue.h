// SPDX-License-Identifier: Apache-2.0
// A simulation's time: what happens next happens now.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "quota/compute_quota.h"

namespace farcall::sharing {

using quota::Ns;

class EventQueue {
 public:
  Ns now() const { return now_; }
  // Not before now; of one time, in the order asked for.
  void At(Ns when, std::function<void()> what) {
    events_.push({when < now_ ? now_ : when, ++last_, std::move(what)});
  }
  void In(Ns delay, std::function<void()> what) { At(now_ + delay, std::move(what)); }
  void RunUntil(Ns end) {
    while (!events_.empty() && events_.top().when <= end) {
      Event event = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      now_ = event.when;
      event.what();
    }
    now_ = end;
  }
  bool empty() const { return events_.empty(); }

 private:
  struct Event {
    Ns when = 0;
    uint64_t number = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  std::priority_queue<Event> events_;
  Ns now_ = 0;
  uint64_t last_ = 0;
};

}  // namespace farcall::sharing
