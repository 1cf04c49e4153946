// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/process/host_follower.h"

#include <string>
#include <utility>

namespace farcall::k8s {

void HostFollower::Start() {
  running_ = std::thread([this] { Run(); });
  listening_ = std::thread([this] { Listen(); });
}

void HostFollower::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  watch_.Stop();
  for (std::thread* thread : {&running_, &listening_})
    if (thread->joinable()) thread->join();
}

void HostFollower::Wake() {
  {
    std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_all();
}

bool HostFollower::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, time, [this] { return is_stopped_; });
}

// That a host has changed is enough: the work asks for all of them.
void HostFollower::Listen() {
  do {
    (void)watch_.Follow("/v1/hosts?watch=1", [this](const std::string&, const std::string&) {
      Wake();
      return true;
    });
  } while (Sleep(pauses_.retry));
}

void HostFollower::Run() {
  Next next = Next::kWait;
  do {
    bool is_woken = false;
    {
      std::unique_lock lock(mutex_);
      auto is_called = [this] { return is_woken_ || is_stopped_; };
      if (next == Next::kRetry)
        wake_.wait_for(lock, pauses_.retry, is_called);
      else if (next == Next::kWait)
        wake_.wait(lock, is_called);
      if (is_stopped_) return;
      is_woken = std::exchange(is_woken_, false);
    }
    next = work_(is_woken);
  } while (Sleep(pauses_.between));
}

}  // namespace farcall::k8s
