// SPDX-License-Identifier: Apache-2.0
// A line on a terminal for what takes more than a second; nothing elsewhere, and nothing is left.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "sync/cond_var.h"

namespace farcall::cli {

class Progress {
 public:
  explicit Progress(const std::string& what) {
    if (isatty(STDERR_FILENO) != 0) thread_ = std::thread([this, what] { Show(what); });
  }
  ~Progress() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void Show(const std::string& what) {
    std::unique_lock lock(mutex_);
    int seconds = 0;
    while (!over_.wait_for(lock, std::chrono::seconds(1), [this] { return is_over_; }))
      std::fprintf(stderr, "\r%s ... %d s\033[K", what.c_str(), ++seconds);
    if (seconds != 0) std::fputs("\r\033[K", stderr);
  }

  std::mutex mutex_;
  CondVar over_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace farcall::cli
