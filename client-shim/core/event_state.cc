// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/event_state.h"

#include "client-shim/core/handles.h"

namespace farcall::client {

void NoteCompleted(uint64_t handle, uint32_t serial, CUresult status) {
  auto* event = FindObject<Event>(HandleKind::kEvent, handle);
  if (event == nullptr) return;
  event->completed.store(static_cast<uint64_t>(static_cast<uint32_t>(status)) << 32 | serial,
                         std::memory_order_release);
}

// Pending is only claimed while nothing has come in that could have told the application otherwise.
EventProgress ProgressOf(const Event& event, uint64_t evidence) {
  uint32_t serial = event.serial.load(std::memory_order_acquire);
  if (serial == 0) return EventProgress::kUnknown;
  uint64_t completed = event.completed.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(completed) == serial) {
    return completed >> 32 == CUDA_SUCCESS ? EventProgress::kDone : EventProgress::kUnknown;
  }
  return event.pending_since.load(std::memory_order_acquire) == evidence ? EventProgress::kPending
                                                                         : EventProgress::kUnknown;
}

}  // namespace farcall::client
