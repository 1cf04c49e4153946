// SPDX-License-Identifier: Apache-2.0
// A thread that runs slow tasks one after the other, so that the issue thread never waits for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "sync/cond_var.h"

namespace farcall::server {

// Strictly in order: a task may rely on what an earlier one created. The thread starts with the
// first task.
class Helper {
 public:
  // `after_each` runs on the helper after each task, once busy() no longer counts it.
  explicit Helper(std::function<void()> after_each) : after_each_(std::move(after_each)) {}
  ~Helper() { Stop(); }

  // `bytes`: what the task holds of its record.
  void Submit(std::function<void()> task, size_t bytes = 0) {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    outstanding_.fetch_add(1);
    held_bytes_.fetch_add(bytes);
    tasks_.push_back({std::move(task), bytes});
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
    wake_.notify_one();
  }
  bool busy() const { return outstanding_.load() != 0; }
  // Whoever submits for a client waits until it is no more. Not counted: one task with its bytes,
  // which is always taken.
  bool full() const {
    return outstanding_.load() >= kMaxTasks || held_bytes_.load() >= kMaxHeldBytes;
  }
  static constexpr int kMaxTasks = 1024;
  static constexpr size_t kMaxHeldBytes = 32u << 20;
  // Drops what has not begun and waits for what has.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Task {
    std::function<void()> run;
    size_t bytes = 0;
  };
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task.run();
      task.run = nullptr;
      held_bytes_.fetch_sub(task.bytes);
      outstanding_.fetch_sub(1);
      after_each_();
      lock.lock();
    }
  }

  std::function<void()> after_each_;
  std::mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_;
  std::atomic<int> outstanding_{0};
  std::atomic<size_t> held_bytes_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
