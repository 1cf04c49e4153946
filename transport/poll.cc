// SPDX-License-Identifier: Apache-2.0
#include "transport/poll.h"

#include <time.h>

#include <cerrno>

#include "transport/sync.h"

namespace farcall {

bool PollUntil(std::span<pollfd> fds, Clock::time_point deadline) {
  for (;;) {
    timespec left{};
    timespec* limit = nullptr;
    if (deadline != Clock::time_point::max()) {
      // Compared first: a time long past, "do not wait", is too far from now to subtract.
      Clock::time_point now = Clock::now();
      auto wait = deadline > now ? deadline - now : Clock::duration::zero();
      auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
      left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
      limit = &left;
    }
    int ready = ppoll(fds.data(), fds.size(), limit, nullptr);
    if (ready > 0) {
      return true;
    }
    if (ready == 0) {
      return false;
    }
    if (errno != EINTR) {
      return true;
    }  // the call that follows names the fault
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
