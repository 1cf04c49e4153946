// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/state/thread.h"

#include <pthread.h>

#include <algorithm>
#include <unordered_map>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/stream.h"

namespace farcall::cpu_device {
namespace {

struct ThreadState {
  std::vector<std::shared_ptr<Context>> stack;
  std::unordered_map<Context*, std::shared_ptr<Stream>> streams;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

void EndThread(void* raw) {
  auto* state = static_cast<ThreadState*>(raw);
  for (auto& [context, stream] : state->streams) stream->context().ForgetThreadStream(stream);
  delete state;
}

pthread_key_t MakeKey() {
  pthread_key_t key;
  pthread_key_create(&key, &EndThread);
  return key;
}

// A pthread key, not a thread_local object: the main thread's state must survive into exit
// handlers.
ThreadState& State() {
  static const pthread_key_t key = MakeKey();
  void* raw = pthread_getspecific(key);
  if (raw == nullptr) {
    raw = new ThreadState;
    pthread_setspecific(key, raw);
  }
  return *static_cast<ThreadState*>(raw);
}

}  // namespace

std::vector<std::shared_ptr<Context>>& ContextStack() {
  return State().stack;
}
std::shared_ptr<Stream>& ThreadStream(Context* context) {
  return State().streams[context];
}
CUstreamCaptureMode& ThreadCaptureMode() {
  return State().capture_mode;
}

void ForgetContext(const Context* context) {
  ThreadState& state = State();
  std::erase_if(state.stack, [&](const auto& entry) { return entry.get() == context; });
  state.streams.erase(const_cast<Context*>(context));
}

}  // namespace farcall::cpu_device
