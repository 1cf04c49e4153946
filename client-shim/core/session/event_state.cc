// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/event_state.h"

#include "client-shim/core/session/handles.h"

namespace farcall::client {

namespace {
// A program that never asks for times pays for a few of them only.
constexpr uint32_t kMeasuredUnasked = 64;
std::atomic<uint32_t> g_measured{0};
std::atomic<bool> g_asked{false};
}  // namespace

void NoteCompleted(uint64_t handle, uint32_t serial, CUresult status, std::optional<float> ms) {
  auto* event = FindObject<Event>(HandleKind::kEvent, handle);
  if (event == nullptr) return;
  if (ms) {
    std::lock_guard lock(event->times_mutex);
    if (event->pair.serial == serial) {
      event->pair.ms = *ms;
      event->pair.known = true;
    }
  }
  event->completed.store(static_cast<uint64_t>(static_cast<uint32_t>(status)) << 32 | serial,
                         std::memory_order_release);
}

// Pending is only claimed while nothing has come in that could have told the application otherwise.
EventProgress ProgressOf(const Event& event, uint64_t evidence) {
  uint32_t serial = event.serial.load(std::memory_order_acquire);
  if (serial == 0) return EventProgress::kUnknown;
  uint64_t completed = event.completed.load(std::memory_order_acquire);
  if (static_cast<uint32_t>(completed) == serial)
    return completed >> 32 == CUDA_SUCCESS ? EventProgress::kDone : EventProgress::kUnknown;
  return event.pending_since.load(std::memory_order_acquire) == evidence ? EventProgress::kPending
                                                                         : EventProgress::kUnknown;
}

RecordedBefore MeasuredFrom(Event* event, uint64_t handle, RecordedBefore last_timed) {
  if (!g_asked.load(std::memory_order_relaxed) &&
      g_measured.fetch_add(1, std::memory_order_relaxed) >= kMeasuredUnasked) {
    g_measured.store(kMeasuredUnasked, std::memory_order_relaxed);
    return {};
  }
  uint64_t asked = 0;
  {
    std::lock_guard lock(event->times_mutex);
    asked = event->asked_from;
  }
  if (asked != 0) {
    auto* from = FindObject<Event>(HandleKind::kEvent, asked);
    const uint32_t serial = from == nullptr ? 0 : from->serial.load(std::memory_order_acquire);
    if (serial != 0) return {asked, serial};
  }
  return last_timed.event == handle ? RecordedBefore() : last_timed;
}

void NoteMeasured(Event* event, RecordedBefore from, uint32_t serial) {
  std::lock_guard lock(event->times_mutex);
  event->pair = {from.event, from.serial, from.event == 0 ? 0 : serial, false, 0};
}

std::optional<float> KnownTime(const Event& from, uint64_t from_handle, Event* to) {
  std::lock_guard lock(to->times_mutex);
  const EventPair& pair = to->pair;
  const bool is_latest = pair.known && pair.from == from_handle &&
                         pair.from_serial == from.serial.load(std::memory_order_acquire) &&
                         pair.serial == to->serial.load(std::memory_order_acquire);
  return is_latest ? std::optional(pair.ms) : std::nullopt;
}

void NoteAsked(uint64_t from_handle, Event* to) {
  g_asked.store(true, std::memory_order_relaxed);
  std::lock_guard lock(to->times_mutex);
  to->asked_from = from_handle;
}

}  // namespace farcall::client
