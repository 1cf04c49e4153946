// SPDX-License-Identifier: Apache-2.0
// gRPC runs a reactor's reactions on any of its threads, each after what came before it. It is not
// instrumented, so that ThreadSanitizer does not see this order: here it is told.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace farcall::pool {

// What this thread has done to the reactor is seen by its next reaction.
inline void HandOn([[maybe_unused]] void* reactor) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(reactor);
#endif
}

// A reaction, from its first line to its last.
class Reaction {
 public:
  explicit Reaction([[maybe_unused]] void* reactor) : reactor_(reactor) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(reactor);
#endif
  }
  ~Reaction() {
    HandOn(reactor_);
  }
  Reaction(const Reaction&) = delete;
  Reaction& operator=(const Reaction&) = delete;

 private:
  void* const reactor_;
};

}  // namespace farcall::pool
