// SPDX-License-Identifier: Apache-2.0
// What the worker keeps of a context, its streams and its events. Changed on the issue thread
// unless said otherwise.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "proto/wire.h"
#include "server/device/completion.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

struct ContextState;

struct StreamState {
  uint64_t key = 0;  // of Completion's queue, unique in the session
  CUstream native = nullptr;
  ContextState* context = nullptr;
  bool active = false;   // listed in its context: work was put on it since it was last seen idle
  bool blocking = true;  // ordered with the default stream
  bool per_thread = false;

  bool is_default = false;  // the legacy default stream
  // That its copies to the host hold; null: never.
  std::shared_ptr<std::atomic<int>> readback_slots = nullptr;
};

// An event's handle for other processes of the vGPU: one, however often it is asked for, until the
// event is destroyed.
struct EventHandle {
  explicit EventHandle(MemoryBroker& owner) : broker(owner) {}
  ~EventHandle() {
    if (token) broker.DropShared(*token);
  }
  EventHandle(const EventHandle&) = delete;
  EventHandle& operator=(const EventHandle&) = delete;

  MemoryBroker& broker;
  std::optional<ShareToken> token;  // the memory helper's
};

// The driver's event, for threads other than the one that destroys it.
struct TimedEvent {
  std::mutex mutex;
  CUevent native = nullptr;  // null: not recorded yet, or destroyed
};

struct EventState {
  ~EventState() { EndTimes(); }
  // The driver's event is about to go, or has gone with its context.   Thread  any
  void EndTimes() {
    std::lock_guard lock(timed->mutex);
    timed->native = nullptr;
  }

  const std::shared_ptr<TimedEvent> timed = std::make_shared<TimedEvent>();
  uint32_t serial = 0;          // of the record that recorded it last
  bool foreign = false;         // another process's: only the driver knows of its recordings
  std::shared_ptr<Watch> last;  // the latest recording; null: never recorded, or while capturing
  std::shared_ptr<EventHandle> handle;  // null: nobody has asked for it
};

struct FunctionState {
  uint64_t parameter_bytes = 0;  // of the packed buffer; kUnknown: the driver did not say
  static constexpr uint64_t kUnknown = ~uint64_t{0};
  uint64_t parent = 0;  // wire handle of its module or library
};

struct ContextState {
  uint16_t slot = 0;
  uint16_t generation = 0;
  int device = 0;
  bool is_primary = false;
  CUcontext native = nullptr;
  CUgreenCtx green = nullptr;  // it works on that one's part of the device

  StreamState legacy;
  std::map<uint16_t, std::unique_ptr<StreamState>> per_thread;  // by client thread
  std::vector<StreamState*> active;
  std::vector<std::shared_ptr<Watch>> orphans;  // work left on streams that were destroyed

  StreamState foreign_waits;  // made when an event of another process is first waited for

  // Frees: noted while a frame is served, fenced once at its end.
  uint64_t noted_epoch = 0;
  uint64_t fenced_epoch = 0;
  std::vector<std::function<void()>> noted_frees;  // run when the fence has passed
  std::atomic<uint64_t> freed_epoch{0};

  // Charged for what its limits take of the device: its kernels' heap, the buffer of their printf.
  uint64_t heap_bytes = 0, printf_bytes = 0;
  uint16_t limit_steps = 0;  // so many times one was raised

  // Handles that die with the context. Under `owned_mutex`: helpers create too.
  std::mutex owned_mutex;
  std::vector<std::pair<HandleKind, uint64_t>> owned;
  size_t prune_owned_at = 1024;  // entries; those destroyed meanwhile go then
};

// Frees what a handle table keeps beside the native object: a StreamState, EventState or
// FunctionState.
void DeleteExtra(HandleKind kind, void* extra);

}  // namespace farcall::server
