// SPDX-License-Identifier: Apache-2.0
// Reads the log from a thread of its own while the issue thread may wait, inside a call of the
// driver, for what only the log brings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "proto/records.h"
#include "proto/status.h"
#include "sync/cond_var.h"
#include "transport/link.h"

namespace farcall::server {

// Records in the log's order, with the chunks that were sent ahead of them.
struct ReadRecords {
  std::vector<std::byte> bytes;
  uint64_t chunks_sent = 0;
};

class LogReader {
 public:
  enum class Early {
    kServed,  // and leaves the log
    kKept,
    kKeptFirst,  // none behind it may be served before it
  };
  // `wake`: calls the issue thread.   `serve_early`: on the reader's thread.
  LogReader(Link& link, std::function<void()> wake,
            std::function<Early(const RecordView&)> serve_early);
  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // ---- issue thread
  // The reader reads from now on, and nobody else may.
  void Start();
  // It has stopped reading once this returns.
  void Stop();
  bool active() const { return active_; }
  // What was read since, for who has served all that it took before (`all_served`) or not; how
  // reading ended, if it did.
  Status Take(bool all_served, std::vector<ReadRecords>* records);

  // ---- the link's observer
  bool IsCurrent() const { return std::this_thread::get_id() == thread_id_.load(); }
  void OnFrame(const FrameView& frame);

 private:
  static constexpr size_t kMaxBytes = 64u << 20;  // then it waits for the issue thread
  void Run();

  Link& link_;
  const std::function<void()> wake_;
  const std::function<Early(const RecordView&)> serve_early_;
  int wake_fd_;
  bool active_ = false;  // the issue thread's
  std::mutex mutex_;
  CondVar changed_;
  bool wanted_ = false, reading_ = false, stopping_ = false;
  std::vector<ReadRecords> records_;
  size_t bytes_ = 0;
  bool in_order_ = false;  // something was kept that none may pass
  Status status_;
  std::atomic<std::thread::id> thread_id_{};
  std::thread thread_;
};

}  // namespace farcall::server
