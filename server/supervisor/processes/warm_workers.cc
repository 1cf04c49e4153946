// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/processes/warm_workers.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "proto/printable.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/supervisor/processes/helper_process.h"
#include "server/worker/warm_worker.h"

namespace farcall::server {

WarmWorkers::WarmWorkers(uint32_t wanted, int epoll, Hooks hooks)
    : wanted_(wanted), epoll_(epoll), hooks_(std::move(hooks)) {}

int WarmWorkers::Tick(Clock::time_point now, int wait_ms) {
  if (workers_.size() < wanted_ && now >= next_) {
    Result<WarmWorker> started = hooks_.start(initialises_);
    if (started.ok()) {
      const int control = started->process.control;
      WatchDescriptor(epoll_, control);
      workers_.emplace(control, std::move(*started));
    } else {
      OnFailure(started.status().message(), now);
    }
  }
  if (workers_.size() >= wanted_) return wait_ms;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next_ - now).count() + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, wait_ms));
}

bool WarmWorkers::OnReadable(int fd, Clock::time_point now) {
  auto worker = workers_.find(fd);
  if (worker == workers_.end()) return false;
  control::FromProbe message;
  std::vector<int> descriptors;
  const Status received = control::Receive(fd, &message, &descriptors);
  for (int each : descriptors) close(each);
  if (received.code() == Code::kTimeout) return true;
  std::string why = "its process has ended";
  if (received.ok()) why = std::get<control::ProbeReport>(message).why;
  if (why.empty() && descriptors.empty() && !worker->second.is_ready) {
    worker->second.is_ready = true;
    told_.clear();
    return true;
  }
  hooks_.end(Extract(worker));
  OnFailure(why.empty() ? "it speaks without being asked" : why, now);
  return true;
}

// A library that starts threads as it is initialised, or as it is loaded, will do so again.
void WarmWorkers::OnFailure(const std::string& why, Clock::time_point now) {
  const bool has_threads = why == kHasThreads;
  if (has_threads && !initialises_) {
    hooks_.note("no workers are started ahead of sessions: " + why + " by being loaded");
    Stop();
  } else if (has_threads) {
    initialises_ = false;
    hooks_.note("workers started ahead of sessions do not call cuInit: " + why);
  } else {
    next_ = now + kAfterFailure;
    if (std::exchange(told_, why) != why)
      hooks_.note("no worker is started ahead of its session for a minute: " + Printable(why));
  }
}

std::optional<WarmWorker> WarmWorkers::Take(Clock::time_point now) {
  for (auto worker = workers_.begin(); worker != workers_.end(); ++worker) {
    pollfd said{worker->first, POLLIN, 0};  // once it is ready it says nothing, unless it ends
    if (worker->second.is_ready && poll(&said, 1, 0) == 0) {
      next_ = std::max(next_, now + kAfterTaking);
      return Extract(worker);
    }
  }
  return {};
}

bool WarmWorkers::EndOne(Clock::time_point now) {
  if (workers_.empty()) return false;
  hooks_.end(Extract(workers_.begin()));
  next_ = now + kAfterFailure;
  return true;
}

void WarmWorkers::EndAll() {
  while (!workers_.empty()) hooks_.end(Extract(workers_.begin()));
}

void WarmWorkers::Stop() {
  wanted_ = 0;
  EndAll();
}

WarmWorker WarmWorkers::Extract(Workers::iterator worker) {
  ForgetDescriptor(epoll_, worker->first);
  WarmWorker taken = std::move(worker->second);
  workers_.erase(worker);
  return taken;
}

}  // namespace farcall::server
