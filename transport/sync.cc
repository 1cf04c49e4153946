// SPDX-License-Identifier: Apache-2.0
#include "transport/sync.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace farcall {
namespace {

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* deadline) {
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, deadline, nullptr,
                 FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) {
    Futex(word, FUTEX_WAIT, expected, nullptr);
    return;
  }
  auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch());
  const timespec at{static_cast<time_t>(since.count() / 1'000'000'000),
                    static_cast<long>(since.count() % 1'000'000'000)};
  Futex(word, FUTEX_WAIT_BITSET, expected, &at);  // of the two, the one with an absolute deadline
}

void FutexWakeOne(std::atomic<uint32_t>& word) {
  Futex(word, FUTEX_WAKE, 1, nullptr);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  Futex(word, FUTEX_WAKE, INT_MAX, nullptr);
}

void Mutex::LockSlowly() {
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    FutexWait(state_, kAwaited);
  }
}

bool WorkerThread::StartRaw(const char* name, void* (*entry)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = pthread_create(&thread_, &attributes, entry, argument);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  pthread_attr_destroy(&attributes);
  started_ = error == 0;
  if (started_) {
    pthread_setname_np(thread_, name);
  }
  return started_;
}

}  // namespace farcall
