// SPDX-License-Identifier: Apache-2.0
// Events: created and recorded by posts; queries and waits ask the server.
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

namespace {
CUresult AskEvent(CallId call, CUevent event) {
  FixedBody<8> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(event));
  return RoundTrip(call, body.bytes(), nullptr);
}
}  // namespace

Event* FindEvent(CUevent event) {
  return FindObject<Event>(HandleKind::kEvent, reinterpret_cast<uint64_t>(event));
}

CUresult Call_cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (phEvent == nullptr || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((Flags & CU_EVENT_INTERPROCESS) != 0 && (Flags & CU_EVENT_DISABLE_TIMING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  const uint64_t wire = NewHandle(HandleKind::kEvent, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<16> body;
  body.Put<uint64_t>(wire);
  body.Put<uint32_t>(Flags);
  status = Post(CallId::cuEventCreate, body.padded());
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kEvent, wire);
    return status;
  }
  *phEvent = reinterpret_cast<CUevent>(wire);
  NewEvent(*phEvent, Flags);
  return CUDA_SUCCESS;
}

void NewEvent(CUevent handle, unsigned flags) {
  auto* event = FormerObject<Event>(HandleKind::kEvent, reinterpret_cast<uint64_t>(handle));
  if (event == nullptr)
    event = new Event;
  else
    event->Renew();
  event->context = CurrentContext();
  event->flags = flags;
  Handles(HandleKind::kEvent).SetObject(reinterpret_cast<uint64_t>(handle), event);
}

CUresult Call_cuEventDestroy_v2(CUevent hEvent) {
  return FindEvent(hEvent) == nullptr ? CUDA_ERROR_INVALID_HANDLE : Post_cuEventDestroy_v2(hEvent);
}

CUresult RecordEvent(CUevent hEvent, CUstream hStream, unsigned flags) {
  Event* event = FindEvent(hEvent);
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(hStream, false, &status);
  if (event == nullptr || status != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
  bool captures = Captures(FindStream(hStream));
  event->capture_stream.store(captures ? FindStream(hStream) : nullptr);
  event->recorded.store(true);
  Session* session = CurrentSession();
  uint64_t evidence = session->evidence();
  FixedBody<32> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(hEvent));
  body.Put<uint64_t>(wire);
  body.Put<uint32_t>(flags);
  if ((event->flags & CU_EVENT_INTERPROCESS) != 0 && !captures) {
    // Another process may wait for it as soon as this one says so: the server has to know by then.
    event->serial.store(0);
    return RoundTrip(CallId::cuEventRecordWithFlags, body.padded(), nullptr);
  }
  const auto handle = reinterpret_cast<uint64_t>(hEvent);
  const bool is_timed = !captures && (event->flags & CU_EVENT_DISABLE_TIMING) == 0 &&
                        HasFeature(session->welcome(), SessionFeature::kEventTimes);
  RecordedBefore* last_timed = &Self()->last_timed;
  RecordedBefore from;
  // What another server recorded cannot be measured from.
  if (HasSeveralServers() && last_timed->event != 0) {
    const ServerScope scope(session);
    const Event* before = FindEvent(reinterpret_cast<CUevent>(last_timed->event));
    if (before == nullptr || before->context->session != session) *last_timed = {};
  }
  if (is_timed) from = MeasuredFrom(event, handle, *last_timed);
  if (from.event != 0) {
    body.Put<uint32_t>(from.serial);
    body.Put<uint64_t>(from.event);
  }
  uint32_t serial = 0;
  CUresult posted = Post(CallId::cuEventRecordWithFlags, body.padded(), {}, {.serial = &serial});
  NoteMeasured(event, from, serial);
  if (is_timed) *last_timed = {handle, serial};
  event->pending_since.store(evidence);
  event->serial.store(captures ? 0 : serial, std::memory_order_release);
  return posted;
}

CUresult Call_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  Event* event = FindEvent(hEvent);
  CUresult status = CUDA_SUCCESS;
  WireStream(hStream, false, &status);
  if (event == nullptr || status != CUDA_SUCCESS) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = FindStream(hStream);
  Context* owner = stream != nullptr ? stream->context : CurrentContext();
  if (owner != event->context) return CUDA_ERROR_INVALID_HANDLE;
  if (flags == CU_EVENT_RECORD_DEFAULT) return RecordEvent(hEvent, hStream, flags);
  // An external record is a node of a graph under capture, and nothing elsewhere.
  return Captures(stream) ? CaptureEvent(hStream, hEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                          : CUDA_ERROR_INVALID_VALUE;
}

namespace {
// What is known of the event here, after looking at what has arrived; a late error of its context
// comes first.
EventProgress Look(const Event* event, CUresult* error) {
  Session* session = CurrentSession();
  EventProgress progress = EventProgress::kUnknown;
  *error = CUDA_SUCCESS;
  if (session == nullptr) return progress;
  progress = ProgressOf(*event, session->evidence());
  if (progress == EventProgress::kPending) {
    session->PollOnce();
    progress = ProgressOf(*event, session->evidence());
  }
  if (progress != EventProgress::kUnknown)
    *error = progress == EventProgress::kDone ? TakeErrorAtWait(event->context)
                                              : TakeLateError(event->context);
  return progress;
}
}  // namespace

CUresult Call_cuEventQuery(CUevent hEvent) {
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->foreign) return AskEvent(CallId::cuEventQuery, hEvent);
  if (!event->recorded.load()) return CUDA_SUCCESS;
  PushMirrorsAtWait();
  CUresult status = CUDA_SUCCESS;
  EventProgress progress = Look(event, &status);
  if (status != CUDA_SUCCESS) return status;
  if (progress == EventProgress::kDone) {
    PullMirrors();
    return CUDA_SUCCESS;
  }
  if (progress == EventProgress::kPending) return CUDA_ERROR_NOT_READY;
  uint64_t evidence = CurrentSession()->evidence() + 1;  // with the answer
  status = AskEvent(CallId::cuEventQuery, hEvent);
  if (status == CUDA_ERROR_NOT_READY) event->pending_since.store(evidence);
  if (status == CUDA_SUCCESS) PullMirrors();
  return status;
}

CUresult Call_cuEventSynchronize(CUevent hEvent) {
  Event* event = FindEvent(hEvent);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->foreign) return AskEvent(CallId::cuEventSynchronize, hEvent);
  if (!event->recorded.load()) return CUDA_SUCCESS;
  PushMirrorsAtWait();
  CUresult status = CUDA_SUCCESS;
  EventProgress progress = Look(event, &status);
  if (status != CUDA_SUCCESS) return status;
  if (progress != EventProgress::kDone)
    status = AskEvent(CallId::cuEventSynchronize, hEvent);
  else
    CurrentSession()->DrainOutput();  // what was printed before it came before it
  TrimPoolsAtWait();
  if (status == CUDA_SUCCESS) PullMirrors();
  return status;
}

CUresult Call_cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  Event *start = FindEvent(hStart), *end = FindEvent(hEnd);
  if (pMilliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (start == nullptr || end == nullptr || !start->recorded.load() || !end->recorded.load() ||
      ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->context->session != end->context->session) return CUDA_ERROR_INVALID_HANDLE;
  const auto from = reinterpret_cast<uint64_t>(hStart);
  if (std::optional<float> known = KnownTime(*start, from, end)) {
    *pMilliseconds = *known;
    return TakeLateError(end->context);
  }
  NoteAsked(from, end);
  return RoundTrip_cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

}  // namespace farcall::client
