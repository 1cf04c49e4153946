// SPDX-License-Identifier: Apache-2.0
// The words of ring.h in memory that two processes share, with futexes and a socket for a bell.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>

#include "transport/channel.h"
#include "transport/shm/ring.h"

namespace farcall {

// The lower half of a position, which a futex can compare.
inline uint32_t* FutexOf(std::atomic<uint64_t>& position) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return reinterpret_cast<uint32_t*>(&position);
}

inline void FutexWake(std::atomic<uint64_t>& position) {
  syscall(SYS_futex, FutexOf(position), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

inline void FutexWait(std::atomic<uint64_t>& position, uint64_t value, Clock::duration most) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(most).count();
  const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  syscall(SYS_futex, FutexOf(position), FUTEX_WAIT, static_cast<uint32_t>(value), &limit, nullptr,
          0);
}

// As the functions of ring.h use them. Bells are the socket's, and so of whoever has that.
class SharedWords {
 public:
  SharedWords(RingWords& own, RingWords& peer) : own_(own), peer_(peer) {}

  static void Fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
  uint64_t LoadTail() const { return peer_.tail.load(std::memory_order_acquire); }
  uint64_t LoadHead() const { return peer_.head.load(std::memory_order_acquire); }
  uint32_t LoadReaderSleep() const { return peer_.reader_sleep.load(std::memory_order_relaxed); }
  uint32_t LoadWriterSleep() const { return peer_.writer_sleep.load(std::memory_order_relaxed); }
  void StoreReaderSleep(uint32_t sleep) {
    own_.reader_sleep.store(sleep, std::memory_order_relaxed);
  }
  void StoreWriterSleep(uint32_t sleep) {
    own_.writer_sleep.store(sleep, std::memory_order_relaxed);
  }
  void WakeHeadWaiters() { FutexWake(own_.head); }
  // Not longer than `room_patience`.
  void WaitWhileHead(uint64_t head) { FutexWait(peer_.head, head, room_patience); }

  Clock::duration room_patience{};

 private:
  RingWords& own_;
  RingWords& peer_;
};

}  // namespace farcall
