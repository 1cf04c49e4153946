// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word until somebody changes it and wakes, within one process.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace farcall {

// Sleeps until somebody wakes `word`, unless it is no longer `expected`; until the deadline at
// most. May return early.
inline void FutexWait(
    std::atomic<uint32_t>& word, uint32_t expected,
    std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max()) {
  if (deadline == std::chrono::steady_clock::time_point::max()) {
    syscall(SYS_futex, &word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, expected, nullptr, nullptr, 0);
    return;
  }
  const auto since =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
  const timespec at{static_cast<time_t>(since.count() / 1'000'000'000),
                    static_cast<long>(since.count() % 1'000'000'000)};
  // Of the two, the one with an absolute deadline.
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, &at, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

inline void FutexWake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}
inline void FutexWakeOne(std::atomic<uint32_t>& word) {
  FutexWake(word, 1);
}
inline void FutexWakeAll(std::atomic<uint32_t>& word) {
  FutexWake(word, INT_MAX);
}

}  // namespace farcall
