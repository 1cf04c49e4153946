// SPDX-License-Identifier: Apache-2.0
// glibc's condition variable can lose a wake-up where several threads wait, and whoever notifies
// next then waits for ever as well (sourceware.org bug 25847; glibc 2.25 to 2.40). This one counts
// what it was told.
#pragma once

#include "sync/futex.h"

namespace farcall {

// As std::condition_variable, for any lock. What it tells of changes under that lock. Notified
// threads have left it before it goes. Waits may return early.
class CondVar {
 public:
  using SteadyClock = std::chrono::steady_clock;

  constexpr CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  template <typename AnyLock>
  void wait(AnyLock& lock) {
    wait_until(lock, SteadyClock::time_point::max());
  }
  template <typename AnyLock>
  void wait_until(AnyLock& lock, SteadyClock::time_point deadline) {
    const uint32_t seen = changes_.load(std::memory_order_relaxed);
    waiters_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    FutexWait(changes_, seen, deadline);
    lock.lock();
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  template <typename AnyLock, typename Rep, typename Period>
  void wait_for(AnyLock& lock, std::chrono::duration<Rep, Period> longest) {
    wait_until(lock, In(longest));
  }

  // Until it is so. False: it was not by then.
  template <typename AnyLock, typename Condition>
  void wait(AnyLock& lock, Condition is_so) {
    while (!is_so()) wait(lock);
  }
  template <typename AnyLock, typename Condition>
  bool wait_until(AnyLock& lock, SteadyClock::time_point deadline, Condition is_so) {
    while (!is_so()) {
      if (SteadyClock::now() >= deadline) return false;
      wait_until(lock, deadline);
    }
    return true;
  }
  template <typename AnyLock, typename Rep, typename Period, typename Condition>
  bool wait_for(AnyLock& lock, std::chrono::duration<Rep, Period> longest, Condition is_so) {
    return wait_until(lock, In(longest), is_so);
  }

  void notify_one() { Notify(1); }
  void notify_all() { Notify(INT_MAX); }

 private:
  template <typename Rep, typename Period>
  static SteadyClock::time_point In(std::chrono::duration<Rep, Period> longest) {
    constexpr auto kForEver = std::chrono::hours(24 * 365);
    return longest >= kForEver
               ? SteadyClock::time_point::max()
               : SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(longest);
  }
  void Notify(int count) {
    // Who waits said so under the lock, ahead of the change that this tells of.
    if (waiters_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      changes_.fetch_add(1, std::memory_order_relaxed);
      FutexWake(changes_, count);
    }
  }

  std::atomic<uint32_t> changes_{0}, waiters_{0};
};

}  // namespace farcall
