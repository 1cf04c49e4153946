// SPDX-License-Identifier: Apache-2.0
// Host functions that the client runs for the session: by token, until it says that it has.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace farcall::server {

//   Thread  any
class HostCalls {
 public:
  // One is in a stream, or (for good) in a graph, from now on until it has run.
  void Expect() { expected_.fetch_add(1); }
  void HasRun() { expected_.fetch_sub(1); }
  bool expected() const { return expected_.load(std::memory_order_relaxed) != 0; }

  // The token of a call under way; `done` runs once, when the client has run it or the session
  // ends.
  uint64_t Add(std::function<void()> done) {
    std::lock_guard lock(mutex_);
    calls_[++last_token_] = std::move(done);
    return last_token_;
  }
  // False: no such call is under way.
  bool Finish(uint64_t token) {
    std::function<void()> done;
    {
      std::lock_guard lock(mutex_);
      auto call = calls_.find(token);
      if (call == calls_.end()) return false;
      done = std::move(call->second);
      calls_.erase(call);
    }
    done();
    return true;
  }
  // Nobody answers any more: all of them are done.
  void FinishAll() {
    std::map<uint64_t, std::function<void()>> calls;
    {
      std::lock_guard lock(mutex_);
      calls.swap(calls_);
    }
    for (auto& [token, done] : calls) done();
  }

 private:
  std::atomic<uint64_t> expected_{0};
  std::mutex mutex_;
  std::map<uint64_t, std::function<void()>> calls_;
  uint64_t last_token_ = 0;
};

}  // namespace farcall::server
