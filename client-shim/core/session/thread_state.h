// SPDX-License-Identifier: Apache-2.0
// What a calling thread carries: its slot (which names its per-thread stream on the wire) and its
// stack of contexts.
#pragma once

#include <cstdint>
#include <vector>

#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/event_state.h"

namespace farcall::client {

class Session;
struct Stream;

struct ThreadState {
  uint16_t slot = 0;
  Context* current = nullptr;   // top of the stack
  std::vector<Context*> stack;  // below the top
  Session* route = nullptr;     // routing.h: whose things the present call has named,
  bool spans = false;           // and whether it has named another server's as well
  uint16_t call = 0;            // the entry being served, for the statistics
  bool waited = false, posted = false;
  std::vector<Stream*> own_streams;  // CU_STREAM_PER_THREAD, one per context
  RecordedBefore last_timed;         // the event with timing that it recorded last
  int capture_mode = 0;              // cuThreadExchangeStreamCaptureMode
};

extern constinit thread_local ThreadState* t_thread __attribute__((tls_model("initial-exec")));

ThreadState* NewThreadState();

inline ThreadState* Self() {
  ThreadState* self = t_thread;
  return self != nullptr ? self : NewThreadState();
}

// Threads that have called CUDA and have not ended.   Thread  any
uint32_t CallingThreads();

// An own stream of a thread that has ended, or nullptr: others may still look at it, so it is used
// anew, not deleted.
Stream* TakeSpareStream();

inline Context* CurrentContext() {
  return Self()->current;
}

// In a forked child: nobody else's slots exist any more.
void ForgetThreads();

}  // namespace farcall::client
