// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/thread_state.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace farcall::client {

constinit thread_local ThreadState* t_thread __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

struct Slots {
  std::mutex mutex;
  std::vector<uint16_t> free;
  uint32_t next = 1;
  std::vector<Stream*> spare_streams;
};
Slots* g_slots = new Slots;
pthread_key_t g_key;
std::atomic<uint32_t> g_calling_threads{0};

void ThreadEnds(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  {
    std::lock_guard lock(g_slots->mutex);
    if (state->slot != 0) g_slots->free.push_back(state->slot);
    g_slots->spare_streams.insert(g_slots->spare_streams.end(), state->own_streams.begin(),
                                  state->own_streams.end());
  }
  if (t_thread == state) t_thread = nullptr;
  g_calling_threads.fetch_sub(1, std::memory_order_relaxed);
  delete state;
}

[[maybe_unused]] const bool g_key_made = pthread_key_create(&g_key, ThreadEnds) == 0;

}  // namespace

ThreadState* NewThreadState() {
  auto* state = new ThreadState;
  {
    std::lock_guard lock(g_slots->mutex);
    if (!g_slots->free.empty()) {
      state->slot = g_slots->free.back();
      g_slots->free.pop_back();
    } else if (g_slots->next <= 0xFFFF) {
      state->slot = static_cast<uint16_t>(g_slots->next++);
    } else {
      state->slot = 0xFFFF;  // more threads than slots: the last ones share a per-thread stream
    }
  }
  t_thread = state;
  g_calling_threads.fetch_add(1, std::memory_order_relaxed);
  pthread_setspecific(g_key, state);
  return state;
}

uint32_t CallingThreads() {
  return g_calling_threads.load(std::memory_order_relaxed);
}

Stream* TakeSpareStream() {
  std::lock_guard lock(g_slots->mutex);
  if (g_slots->spare_streams.empty()) return nullptr;
  Stream* spare = g_slots->spare_streams.back();
  g_slots->spare_streams.pop_back();
  return spare;
}

void ForgetThreads() {
  g_slots = new Slots;
  g_calling_threads.store(0, std::memory_order_relaxed);
  t_thread = nullptr;
  pthread_setspecific(g_key, nullptr);
}

}  // namespace farcall::client
