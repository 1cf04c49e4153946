// SPDX-License-Identifier: Apache-2.0
// Workers that are started before their sessions come (worker/warm_worker.h): a bounded number,
// started again in the background. They serve sessions of the default environment only; every other
// session's worker is started when it comes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "server/worker/worker_process.h"
#include "transport/channel.h"

namespace farcall::server {

struct WarmWorker {
  WorkerProcess process;
  std::string place;          // stands for its vGPU in what is shared out
  std::optional<uid_t> user;  // none: the server's
  uint64_t output = 0;        // its pipe in WorkerOutput
  bool is_ready = false;
};

//   Thread  one at a time
class WarmWorkers {
 public:
  struct Hooks {
    // Starts one; `initialises`: up to cuInit, else libraries are loaded only.
    std::function<Result<WarmWorker>(bool initialises)> start;
    // Ends one, and gives back what it holds.
    std::function<void(WarmWorker)> end;
    std::function<void(const std::string& line)> note;  // for the log
  };
  // A session that opens has the processors to itself, and the next comes rarely at once.
  static constexpr std::chrono::milliseconds kAfterTaking{20};
  static constexpr std::chrono::seconds kAfterFailure{60};

  // `wanted`: so many are kept. `epoll`: the supervisor's loop, which calls OnReadable; -1: none.
  WarmWorkers(uint32_t wanted, int epoll, Hooks hooks);
  ~WarmWorkers() { Stop(); }
  WarmWorkers(const WarmWorkers&) = delete;
  WarmWorkers& operator=(const WarmWorkers&) = delete;

  // Starts one if one is missing.   Returns  `wait_ms`, or less: when it wants to be called again
  int Tick(Clock::time_point now, int wait_ms);
  // It has said that it is ready or why it is not, or it has ended.   Returns  false: not of these
  bool OnReadable(int fd, Clock::time_point now);
  // One that is ready, the caller's from now on.
  std::optional<WarmWorker> Take(Clock::time_point now);
  // Ends one, to make room.   Returns  false: there is none
  bool EndOne(Clock::time_point now);
  // Ends them all; Tick starts others.
  void EndAll();
  // And none is started again.
  void Stop();
  size_t size() const { return workers_.size(); }

 private:
  using Workers = std::map<int, WarmWorker>;  // by control descriptor
  WarmWorker Extract(Workers::iterator worker);
  void OnFailure(const std::string& why, Clock::time_point now);

  uint32_t wanted_;
  const int epoll_;
  const Hooks hooks_;
  bool initialises_ = true;
  std::string told_;          // the last failure, which is noted once
  Clock::time_point next_{};  // none is started before
  Workers workers_;
};

}  // namespace farcall::server
