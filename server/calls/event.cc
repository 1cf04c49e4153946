// SPDX-License-Identifier: Apache-2.0
// Recording events, waiting for them; the client is told when a recording has completed.
#include "server/calls/context.h"
#include "server/driver_api.h"
#include "server/handwritten.h"
#include "server/session/session.h"

namespace farcall::server {

namespace {

// The client's word for "watch this place for a recording that a graph makes".
constexpr uint32_t kRecordedByGraph = 1u << 31;

void PushCompleted(Session& session, uint64_t event, uint32_t serial, CUresult status) {
  Builder body;
  body.Put<uint64_t>(event);
  body.Put<uint32_t>(serial);
  body.Put<int32_t>(status);
  session.TellMirrored();
  session.outbox().Push(SessionCall::kCompleted, body.bytes());
}

// Another process records it, so there is no watch of ours: one is set behind a stream that waits
// for it.
void AwaitForeign(ServeCall& call, CUevent event) {
  ContextState& context = *call.context;
  StreamState& stream = context.foreign_waits;
  if (stream.native == nullptr) {
    call.result = call.api.cuStreamCreate(&stream.native, CU_STREAM_NON_BLOCKING);
    stream.key = call.session.NewStreamKey();
    stream.context = &context;
  }
  if (call.result == CUDA_SUCCESS) {
    call.result = call.api.cuStreamWaitEvent(stream.native, event, 0);
  }
  if (call.result != CUDA_SUCCESS) {
    return;
  }
  call.parked = call.session.FenceStream(
      stream,
      [&session = call.session, header = call.header](CUresult result) {
        session.Answer(header, result, {});
      },
      &call.result);
}

}  // namespace

Status Serve_cuEventRecordWithFlags(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) {
    return call.LieStatus();
  }
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
  if (call.result != CUDA_SUCCESS) {
    PushCompleted(session, wire_event, call.header.serial, call.result);  // the client asks
    return {};
  }
  if (session.capturing(stream->native)) {
    return {};
  }
  session.MarkActive(*stream);
  // Watched by an event of ours at the same place: the program may record its own again, or destroy
  // it.
  auto watch = session.completion().Add(
      stream->key, stream->context->native, stream->native,
      [&session, wire_event, serial = call.header.serial,
       native = stream->context->native](CUresult result) {
        session.FlushPrintf(native);
        PushCompleted(session, wire_event, serial, result);
      },
      &call.result);
  state->last = std::move(watch);
  return {};
}

// All of a context's work: watched by a fence over its streams, recorded by the driver's own call.
Status Serve_cuCtxRecordEvent(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  auto wire_context = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  call.Resolve<CUcontext>(HandleKind::kContext, wire_context);
  if (!call.ready()) {
    return call.LieStatus();
  }
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  Session& session = call.session;
  ContextState* context = session.context(static_cast<uint16_t>(SplitHandle(wire_context).index));
  state->last = nullptr;
  if (context->green != nullptr && call.api.cuGreenCtxRecordEvent != nullptr) {
    call.result = call.api.cuGreenCtxRecordEvent(context->green, event);
  } else if (call.api.cuCtxRecordEvent != nullptr) {
    call.result = call.api.cuCtxRecordEvent(context->native, event);
  } else {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (call.result != CUDA_SUCCESS) {
    PushCompleted(session, wire_event, call.header.serial, call.result);  // the client asks
    return {};
  }
  auto watch = session.completion().AddManual(
      session.NewStreamKey(), context->native,
      [&session, wire_event, serial = call.header.serial](CUresult result) {
        PushCompleted(session, wire_event, serial, result);
      });
  state->last = watch;
  session.MakeCurrent(context);
  auto reached = [&session, watch](CUresult) { session.completion().Signal(watch); };
  CUresult idle = CUDA_SUCCESS;
  if (!session.Fence(*context, reached, &idle)) {
    reached(idle);
  }
  return {};
}

Status Serve_cuEventSynchronize(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  if (!call.ready()) {
    return call.LieStatus();
  }
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
        session.FlushPrintf(context);
        session.Answer(header, result, {});
      });
  if (!call.parked) {
    call.result = state->last->status;
    session.DrainOutput();
  }
  return {};
}

Status Serve_cuEventQuery(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  if (call.AnswerNotReady()) {
    return {};
  }
  if (!call.ready()) {
    return call.LieStatus();
  }
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  if (state->foreign) {
    call.result = call.api.cuEventQuery(event);
    return {};
  }
  if (state->last == nullptr) {
    return {};
  }
  // Done means that the bytes of the copies before it have been sent.
  call.result = call.session.completion().StatusOf(state->last);
  return {};
}

}  // namespace farcall::server
