// SPDX-License-Identifier: Apache-2.0
#include "transport/sync.h"

#include <signal.h>

namespace farcall {

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
  if (started_) pthread_setname_np(thread_, name);
  return started_;
}

}  // namespace farcall
