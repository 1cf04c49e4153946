// SPDX-License-Identifier: Apache-2.0
// What workers write to their standard error, as lines of the server's log. A worker may have been
// taken over: its lines name its session, are escaped and bounded, and a flood of them is left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "proto/status.h"
#include "server/supervisor/processes/event_rate.h"

namespace farcall::server {

class WorkerOutput {
 public:
  static constexpr size_t kMaxLineBytes = 2048;  // the rest of a longer line is left out
  // Of one worker: a sanitizer's whole report, and then a few lines a second.
  static constexpr double kLinesAtOnce = 300, kLinesPerSecond = 20;
  // Of all of them: whoever begins session after session has no more.
  static constexpr double kAllAtOnce = 3000, kAllPerSecond = 300;

  // Takes a printable line.   Thread  the reader
  using Write = std::function<void(const std::string& who, const std::string& line)>;

  explicit WorkerOutput(Write write);
  // Reads what the pipes hold.
  ~WorkerOutput();
  WorkerOutput(const WorkerOutput&) = delete;
  WorkerOutput& operator=(const WorkerOutput&) = delete;

  struct Pipe {
    uint64_t id = 0;  // 0: none
    int end = -1;     // to be written to; the caller's to close
  };
  // For a worker that is named so in the log.   Errors  kUnavailable   Thread  any
  Result<Pipe> Open(std::string who);
  // The worker has another name in the log from its next line on.   Thread  any
  void Rename(uint64_t id, std::string who);
  // The worker is gone: what its pipe holds is read, and no more, whoever has a copy of its end.
  //   Thread  any
  void End(uint64_t id);

 private:
  struct Source {
    int pipe = -1;
    std::string who;
    std::string line;       // what has come of it
    bool is_cut = false;    // it was too long
    uint64_t left_out = 0;  // lines since the last that was written
    EventRate rate{kLinesPerSecond, kLinesAtOnce, std::chrono::steady_clock::now()};
  };

  void Wake();
  void Run();
  // Returns false: there is no more.
  bool Read(Source& source);
  void Take(Source& source, std::string_view bytes);
  void EndLine(Source& source);
  void WriteLeftOut(Source& source);
  bool HasLeftOut() const;
  void Finish(uint64_t id);

  const Write write_;
  const int epoll_, wake_;
  std::mutex mutex_;  // the next five
  uint64_t made_ = 0;
  std::vector<std::pair<uint64_t, Source>> new_;
  std::vector<std::pair<uint64_t, std::string>> renamed_;
  std::vector<uint64_t> ended_;
  bool stopping_ = false;
  std::map<uint64_t, Source> sources_;  // the reader's, as all below
  std::chrono::steady_clock::time_point now_;
  EventRate all_;
  std::thread thread_;
};

}  // namespace farcall::server
