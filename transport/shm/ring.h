// SPDX-License-Identifier: Apache-2.0
// How two processes share a ring: who writes which word, and how a side that sleeps is woken. Each
// side has a memory that it alone writes: its words, and the ring of what it sends. The functions
// are templates, so that a test runs them through every interleaving (shm_ring_test.cc).
//
// Positions count bytes since the beginning. The reader's sleep has a number, and the writer rings
// once for each: a writer that is faster than the reader wakes up does not ring for every batch.
// Only who sleeps clears its word. A writer that cleared it could do so after the reader has gone
// to sleep again, whom nobody would wake.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace farcall {

// What the owner of a memory tells the other side, who reads all of it with distrust.
struct RingWords {
  uint32_t magic = 0, version = 0;
  alignas(64) std::atomic<uint64_t> tail{0};          // bytes written into this memory's ring
  alignas(64) std::atomic<uint64_t> head{0};          // bytes taken out of the other's ring
  alignas(64) std::atomic<uint32_t> reader_sleep{0};  // the number of its sleep; 0: awake
  alignas(64) std::atomic<uint32_t> writer_sleep{0};  // 1: waits for room
};

inline constexpr uint32_t kRingMagic = 0x52534346, kRingVersion = 1;  // "FCSR"
inline constexpr size_t kRingOffset = 4096;                           // of a ring in its memory
static_assert(sizeof(RingWords) <= kRingOffset);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// After the writer has stored a new tail: wakes a reader that sleeps.
//   rung   the sleep that was rung for last
template <typename Words>
void WakeReader(Words& words, uint32_t* rung) {
  words.Fence();
  const uint32_t sleep = words.LoadReaderSleep();
  if (sleep != 0 && sleep != *rung) {
    *rung = sleep;
    words.RingBell();
  }
}

// Sleeps until a bell, unless there is more than `head` by then. False: something else ended it.
//   sleep   the number of the last sleep
template <typename Words>
bool SleepForData(Words& words, uint64_t head, uint32_t* sleep) {
  *sleep = *sleep == UINT32_MAX ? 1 : *sleep + 1;
  words.StoreReaderSleep(*sleep);
  words.Fence();
  const bool woken = words.LoadTail() != head || words.WaitForBell();
  words.StoreReaderSleep(0);
  return woken;
}

// After the reader has stored a new head: wakes a writer that waits for room.
template <typename Words>
void WakeWriter(Words& words) {
  words.Fence();
  if (words.LoadWriterSleep() != 0) words.WakeHeadWaiters();
}

// Sleeps while the reader's head is `head`.
template <typename Words>
void SleepForRoom(Words& words, uint64_t head) {
  words.StoreWriterSleep(1);
  words.Fence();
  if (words.LoadHead() == head) words.WaitWhileHead(head);  // compares once more as it falls asleep
  words.StoreWriterSleep(0);
}

}  // namespace farcall
