// SPDX-License-Identifier: Apache-2.0
// A mutex that no other thread holds in a forked child: fork waits for it, so that what it guards
// is whole in the child and may be used there.
#pragma once

#include <pthread.h>

#include <mutex>

namespace farcall::client {

// For short sections that take no other lock, wait for nothing and call nobody's code: a fork takes
// all of a library's, in no order. Never destroyed.
//   Thread  any
class ForkLock {
 public:
  ForkLock() {
    std::lock_guard lock(All().mutex);
    next_ = All().first;
    All().first = this;
  }
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct List {
    List() { pthread_atfork(Lock, Unlock, Unlock); }
    std::mutex mutex;
    ForkLock* first = nullptr;
  };
  static List& All() {
    static auto* all = new List;
    return *all;
  }
  static void Lock() {
    All().mutex.lock();
    for (ForkLock* one = All().first; one != nullptr; one = one->next_) one->lock();
  }
  static void Unlock() {
    for (ForkLock* one = All().first; one != nullptr; one = one->next_) one->unlock();
    All().mutex.unlock();
  }

  std::mutex mutex_;
  ForkLock* next_ = nullptr;
};

}  // namespace farcall::client
