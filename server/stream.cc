// SPDX-License-Identifier: Apache-2.0
// Waiting for streams and asking after them. A wait is parked: the log goes on.
#include "server/context.h"
#include "server/driver_api.h"
#include "server/handwritten.h"
#include "server/session.h"

namespace farcall::server {

Status Serve_cuStreamSynchronize(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) {
    return call.LieStatus();
  }
  Session& session = call.session;
  if (stream->context != nullptr) {
    session.MakeCurrent(stream->context);
  }
  CUcontext context = stream->context == nullptr ? nullptr : stream->context->native;
  call.parked = session.FenceStream(
      *stream,
      [&session, context, header = call.header](CUresult result) {
        session.FlushPrintf(context);
        session.Answer(header, result, {});
      },
      &call.result);
  if (!call.parked) {
    session.FlushPrintf(context);
  }
  return {};
}

Status Serve_cuStreamQuery(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  StreamState* stream = call.FindStream(wire_stream);
  if (call.AnswerNotReady()) {
    return {};
  }
  if (!call.ready()) {
    return call.LieStatus();
  }
  call.result = call.api.cuStreamQuery(stream->native);
  if (call.result == CUDA_ERROR_NOT_READY || call.session.completion().idle()) {
    return {};
  }
  // Complete, but bytes of copies may be still to be sent, or events to be told of: "ready" may
  // only follow them.
  call.parked = call.session.FenceStream(
      *stream,
      [&session = call.session, header = call.header](CUresult result) {
        session.Answer(header, result, {});
      },
      &call.result);
  return {};
}

Status Serve_cuCtxSynchronize_v2(ServeCall& call) {
  auto wire_context = call.in.Get<uint64_t>();
  if (!call.in.Done()) {
    return call.Malformed("body");
  }
  call.Resolve<CUcontext>(HandleKind::kContext, wire_context);
  if (!call.ready()) {
    return call.LieStatus();
  }
  Session& session = call.session;
  ContextState* context = session.context(static_cast<uint16_t>(SplitHandle(wire_context).index));
  session.MakeCurrent(context);
  call.parked = session.Fence(
      *context,
      [&session, native = context->native, header = call.header](CUresult result) {
        session.FlushPrintf(native);
        session.Answer(header, result, {});
      },
      &call.result);
  if (!call.parked) {
    session.FlushPrintf(context->native);
  }
  return {};
}

}  // namespace farcall::server
