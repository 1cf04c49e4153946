// SPDX-License-Identifier: Apache-2.0
// A lock that another thread held at a fork is nobody's in the child, which gets a new one.
#pragma once

#include <pthread.h>

#include <mutex>

namespace farcall::cudart {

// Never destroyed: calls come from handlers of exit.
#define FARCALL_FORKED_MUTEX(name)         \
  std::mutex* name = new std::mutex;       \
  [[maybe_unused]] const int name##_fork = \
      pthread_atfork(nullptr, nullptr, [] { name = new std::mutex; })

}  // namespace farcall::cudart
