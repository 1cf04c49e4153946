// SPDX-License-Identifier: Apache-2.0
// A thread that does its work again each time that a host of the pool has changed.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "pool/client/rest_watch.h"
#include "sync/cond_var.h"

namespace farcall::k8s {

class HostFollower final {
 public:
  enum class Next {
    kWait,   // until a host changes, or somebody wakes it
    kSoon,   // there is more to do: after the pause
    kRetry,  // it failed: after the retry's pause, or when woken
  };
  struct Pauses {
    std::chrono::milliseconds between;  // two runs at least: what changes meanwhile adds up
    std::chrono::milliseconds retry;    // after a failure, and after a lost watch
  };
  // `work` runs on a thread of its own. `is_woken`: something may have changed since its last run.
  HostFollower(const pool::PoolAddress& pool, Pauses pauses,
               std::function<Next(bool is_woken)> work)
      : watch_(pool), pauses_(pauses), work_(std::move(work)) {}
  ~HostFollower() { Stop(); }
  void Start();
  void Stop();
  // Thread  any
  void Wake();
  // For work that takes long. False: it is to end.
  bool Sleep(std::chrono::milliseconds time);

 private:
  void Listen();
  void Run();

  pool::RestWatch watch_;
  const Pauses pauses_;
  const std::function<Next(bool)> work_;
  std::mutex mutex_;
  CondVar wake_;
  bool is_woken_ = false, is_stopped_ = false;
  std::thread listening_, running_;
};

}  // namespace farcall::k8s
