// SPDX-License-Identifier: Apache-2.0
// A condition variable with deadlines on the steady clock, and a thread that may be left behind in
// a forked child. std::condition_variable needs glibc 2.30 for steady deadlines, and a joinable
// std::thread ends the process that drops it.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <memory>
#include <mutex>

#include "transport/channel.h"

namespace farcall {

class CondVar {
 public:
  CondVar() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&condition_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~CondVar() { pthread_cond_destroy(&condition_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(std::unique_lock<std::mutex>& lock) {
    pthread_cond_wait(&condition_, lock.mutex()->native_handle());
  }
  void WaitUntil(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
    if (deadline == Clock::time_point::max()) {
      return Wait(lock);
    }
    auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
    timespec at{static_cast<time_t>(since.count() / 1'000'000'000),
                static_cast<long>(since.count() % 1'000'000'000)};
    pthread_cond_timedwait(&condition_, lock.mutex()->native_handle(), &at);
  }
  void NotifyAll() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_;
};

// Runs one member function on a thread that takes none of the program's signals.
class WorkerThread {
 public:
  static constexpr size_t kStackBytes = 512u << 10;

  template <typename Object, typename... Arguments>
  bool Start(const char* name, void (Object::*body)(Arguments...), Object* object,
             std::type_identity_t<Arguments>... arguments) {
    auto run = [object, body, arguments...] { (object->*body)(arguments...); };
    return StartRaw(name, &Entry<decltype(run)>, new decltype(run)(std::move(run)));
  }
  bool started() const { return started_; }
  bool IsCurrent() const { return started_ && pthread_equal(thread_, pthread_self()) != 0; }
  void Join() {
    if (started_) {
      pthread_join(thread_, nullptr);
    }
    started_ = false;
  }

 private:
  template <typename Run>
  static void* Entry(void* raw) {
    std::unique_ptr<Run> run(static_cast<Run*>(raw));
    (*run)();
    return nullptr;
  }
  bool StartRaw(const char* name, void* (*entry)(void*), void* argument);

  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace farcall
