// SPDX-License-Identifier: Apache-2.0
// Why sessions ended that a client may still come back for: it is told the cause.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "proto/handshake/handshake.h"

namespace farcall::server {

// The last kMax sessions that ended within kKept.   Thread  one
class EndedSessions {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kKept{60};
  static constexpr size_t kMax = 1024;

  struct Ended {
    SessionId session;
    SessionKey key;  // who asks has to show it
    std::string cause;
    Time at;
  };

  void Note(const SessionId& session, const SessionKey& key, std::string cause, Time now) {
    Forget(now);
    if (ended_.size() == kMax) ended_.pop_front();
    ended_.push_back({session, key, std::move(cause), now});
  }

  // nullptr: it is not known, or no longer.
  const Ended* Find(const SessionId& session, Time now) {
    Forget(now);
    for (const Ended& ended : ended_)
      if (ended.session == session) return &ended;
    return nullptr;
  }

 private:
  void Forget(Time now) {
    while (!ended_.empty() && now - ended_.front().at >= kKept) ended_.pop_front();
  }

  std::deque<Ended> ended_;  // in order of `at`
};

}  // namespace farcall::server
