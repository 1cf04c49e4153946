// SPDX-License-Identifier: Apache-2.0
// Recording events, waiting for them; the client is told when a recording has completed.
#include <bit>
#include <memory>
#include <mutex>
#include <optional>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/device/current_context.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// The client's word for "watch this place for a recording that a graph makes".
constexpr uint32_t kRecordedByGraph = 1u << 31;

// Two recordings whose distance the client will want to know once the second has completed.
struct Pair {
  std::shared_ptr<TimedEvent> from, to;
};

// Of what the program has recorded anew meanwhile the client does not take it.   Thread  any
std::optional<float> TimeOf(const DriverApi& api, const Pair& pair) {
  float ms = 0;
  std::scoped_lock lock(pair.from->mutex, pair.to->mutex);
  const bool known =
      pair.from->native != nullptr && pair.to->native != nullptr &&
      api.cuEventElapsedTime != nullptr &&
      api.cuEventElapsedTime(&ms, pair.from->native, pair.to->native) == CUDA_SUCCESS;
  return known ? std::optional(ms) : std::nullopt;
}

void PushCompleted(Session& session, uint64_t event, uint32_t serial, CUresult status,
                   std::optional<float> ms = {}) {
  Builder body;
  body.Put<uint64_t>(event);
  body.Put<uint32_t>(serial);
  body.Put<int32_t>(status);
  if (ms) body.Put<uint32_t>(std::bit_cast<uint32_t>(*ms));
  session.mirror_reports().Report();
  session.outbox().Push(SessionCall::kCompleted, body.bytes());
}

// What the record names is the event's newest recording, of the log's order: one that stands in the
// side queue, or was made by other means, is none.
std::optional<Pair> PairOf(ServeCall& call, EventState* to, CUevent native, uint64_t wire_from,
                           uint32_t from_serial) {
  if (wire_from == 0) return std::nullopt;
  const HandleParts parts = SplitHandle(wire_from);
  if (!HasHandleForm(wire_from) || parts.kind != HandleKind::kEvent) {
    call.Reject("an event that is none");
    return std::nullopt;
  }
  const HandleTable::Found found =
      call.session.table(HandleKind::kEvent).Find(parts.index, parts.generation);
  if (found.state != HandleTable::State::kLive || !found.generation_matches) return std::nullopt;
  auto* from = static_cast<EventState*>(found.extra);
  if (from == to || from->serial != from_serial || from_serial == 0) return std::nullopt;
  std::scoped_lock lock(from->timed->mutex, to->timed->mutex);
  from->timed->native = static_cast<CUevent>(found.native);
  to->timed->native = native;
  return Pair{from->timed, to->timed};
}

// Another process records it, so there is no watch of ours: one is set behind a stream that waits
// for it.
void AwaitForeign(ServeCall& call, CUevent event) {
  ContextState& context = *call.context;
  StreamState& stream = context.foreign_waits;
  if (stream.native == nullptr) {
    call.result = call.api.cuStreamCreate(&stream.native, CU_STREAM_NON_BLOCKING);
    stream.key = call.session.streams().NewKey();
    stream.context = &context;
  }
  if (call.result == CUDA_SUCCESS)
    call.result = call.api.cuStreamWaitEvent(stream.native, event, 0);
  if (call.result != CUDA_SUCCESS) return;
  call.parked = call.session.streams().FenceStream(
      stream,
      [&session = call.session, header = call.header](CUresult result) {
        session.Answer(header, result, {});
      },
      &call.result);
}

}  // namespace

Status Serve_cuEventCreate(ServeCall& call) {
  const auto wire = call.in.Get<uint64_t>();
  const auto flags = call.in.Get<uint32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kEvent, wire);
  if (!call.ready()) return call.RejectStatus();
  CUevent event = nullptr;
  call.result = call.api.cuEventCreate(&event, flags);
  if (call.result == CUDA_SUCCESS) {
    call.Insert(HandleKind::kEvent, wire, event);
  } else if (call.result == CUDA_ERROR_MAP_FAILED && (flags & CU_EVENT_INTERPROCESS) != 0) {
    // NVIDIA's driver keeps them in /dev/shm, for all that is of its user.
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    call.detail =
        "an event for other processes needs a worker that may write to /dev/shm: `farcall serve "
        "--trust-tenants`, or mode mps";
  }
  return {};
}

Status Serve_cuEventRecordWithFlags(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  uint32_t from_serial = 0;
  uint64_t wire_from = 0;
  if (call.in.remaining_bytes() >= sizeof(from_serial) + sizeof(wire_from)) {
    from_serial = call.in.Get<uint32_t>();
    wire_from = call.in.Get<uint64_t>();
  }
  if (!call.in.Done()) return call.Malformed("body");
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  Session& session = call.session;
  if (flags == kRecordedByGraph) {
    // A node of a graph launched before this record has recorded it, or will.
  } else if (flags == 0) {
    call.result = call.api.cuEventRecord(event, stream->native);
  } else if (call.api.cuEventRecordWithFlags != nullptr) {
    call.result = call.api.cuEventRecordWithFlags(event, stream->native, flags);
  } else {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
  }
  state->last = nullptr;
  state->serial = 0;
  if (call.result != CUDA_SUCCESS) {
    PushCompleted(session, wire_event, call.header.serial, call.result);  // the client asks
    return {};
  }
  if (session.streams().capturing(stream->native)) return {};
  session.streams().MarkActive(*stream);
  state->serial = call.header.serial;
  const std::optional<Pair> pair = PairOf(call, state, event, wire_from, from_serial);
  // Watched by an event of ours at the same place: the program may record its own again, or destroy
  // it.
  auto watch = session.completion().Add(
      stream->key, stream->context->native, stream->native,
      [&session, &api = call.api, wire_event, serial = call.header.serial, pair,
       native = stream->context->native](CUresult result) {
        session.output().FlushPrintf(native);
        std::optional<float> ms;
        if (pair && result == CUDA_SUCCESS) {
          CurrentContext::Set(api, native);
          ms = TimeOf(api, *pair);
        }
        PushCompleted(session, wire_event, serial, result, ms);
      },
      &call.result);
  state->last = std::move(watch);
  return {};
}

// All of a context's work: watched by a fence over its streams, recorded by the driver's own call.
Status Serve_cuCtxRecordEvent(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  auto wire_context = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  call.Resolve<CUcontext>(HandleKind::kContext, wire_context);
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  Session& session = call.session;
  ContextState* context =
      session.contexts().at(static_cast<uint16_t>(SplitHandle(wire_context).index));
  state->last = nullptr;
  if (context->green != nullptr && call.api.cuGreenCtxRecordEvent != nullptr)
    call.result = call.api.cuGreenCtxRecordEvent(context->green, event);
  else if (call.api.cuCtxRecordEvent != nullptr)
    call.result = call.api.cuCtxRecordEvent(context->native, event);
  else
    call.result = CUDA_ERROR_NOT_SUPPORTED;
  if (call.result != CUDA_SUCCESS) {
    PushCompleted(session, wire_event, call.header.serial, call.result);  // the client asks
    return {};
  }
  auto watch = session.completion().AddManual(
      session.streams().NewKey(), context->native,
      [&session, wire_event, serial = call.header.serial](CUresult result) {
        PushCompleted(session, wire_event, serial, result);
      });
  state->last = watch;
  session.contexts().MakeCurrent(context);
  auto reached = [&session, watch](CUresult) { session.completion().Signal(watch); };
  CUresult idle = CUDA_SUCCESS;
  if (!session.streams().Fence(*context, reached, &idle)) reached(idle);
  return {};
}

Status Serve_cuEventSynchronize(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  Session& session = call.session;
  if (state->foreign) {
    AwaitForeign(call, event);
    return {};
  }
  if (state->last == nullptr) {
    return {};
  }  // never recorded: complete, as CUDA has it
  CUcontext context = state->last->context;
  call.parked = session.completion().Attach(
      state->last, [&session, context, header = call.header](CUresult result) {
        session.output().FlushPrintf(context);
        session.Answer(header, result, {});
      });
  if (!call.parked) {
    call.result = state->last->status;
    session.output().Drain();
  }
  return {};
}

Status Serve_cuEventQuery(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  if (call.AnswerNotReady()) return {};
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  if (state->foreign) {
    call.result = call.api.cuEventQuery(event);
    return {};
  }
  if (state->last == nullptr) return {};
  // Done means that the bytes of the copies before it have been sent.
  call.result = call.session.completion().StatusOf(state->last);
  return {};
}

}  // namespace farcall::server
