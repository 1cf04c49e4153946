// SPDX-License-Identifier: Apache-2.0
// A stream and an event as the client knows them.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/event_state.h"
#include "client-shim/core/session/handles.h"

namespace farcall::client {

struct Stream {
  uint64_t handle = 0;  // 0: a thread's own
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::atomic<int> capture{CU_STREAM_CAPTURE_STATUS_NONE};
  std::atomic<uint64_t> capture_id{0};
  std::atomic<uint64_t> capture_graph{0};  // the graph it makes
  std::atomic<uint64_t> waited{0};         // Session::records() when it was last waited for
  std::atomic<bool> copied{false};         // and that by a copy to the host, none by a wait since
};

// The application's stream, or the thread's own; nullptr for the legacy one or none.
Stream* FindStream(CUstream stream);
Event* FindEvent(CUevent event);
// Whether all work that was given to a server has completed, as it answers now.
bool IsKnownIdle(Session* session);
// For a new event's handle, in the current context.
void NewEvent(CUevent handle, unsigned flags);

// A stream of the current context; `create` sends what makes it, given the handle and the priority
// within the range.
CUresult CreateStream(CUstream* out, unsigned flags, int priority,
                      const std::function<CUresult(uint64_t handle, int priority)>& create);

// `flags` as the record has them.
CUresult RecordEvent(CUevent event, CUstream stream, unsigned flags);

inline constexpr uint64_t kLegacyStream = 1;
inline constexpr uint64_t kPerThreadStream = 2;

// As WireStream, the default stream being the legacy one. False: no such stream. `object`: of a
// stream that the application made.
inline bool ToWire(CUstream stream, uint64_t* wire, void** object) {
  const auto value = reinterpret_cast<uint64_t>(stream);
  *wire = value == 0 ? kLegacyStream : value;
  return value <= kPerThreadStream || FindLive<HandleKind::kStream>(value, object);
}
inline bool ToWire(CUstream stream, uint64_t* wire) {
  void* object = nullptr;
  return ToWire(stream, wire, &object);
}

}  // namespace farcall::client
