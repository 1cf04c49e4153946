// SPDX-License-Identifier: Apache-2.0
// Waiting for streams and asking after them. A wait is parked: the log goes on.
#include <atomic>
#include <memory>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/context.h"
#include "server/device/current_context.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

struct Passed {
  std::atomic<bool> yes{false};
  CUresult result = CUDA_SUCCESS;
};

// A wait that nobody hears of: the log goes on once the stream has got here, so that what follows
// it there follows it on the device, whatever its stream.
Status Barrier(ServeCall& call, const StreamState& stream) {
  auto passed = std::static_pointer_cast<Passed>(call.turn.kept);
  if (passed == nullptr) {
    call.result = call.api.cuStreamQuery(stream.native);
    if (call.result != CUDA_ERROR_NOT_READY) return {};
    passed = std::make_shared<Passed>();
    call.result = call.session.completion().Add(stream.key, stream.context->native, stream.native,
                                                false, [passed](CUresult result) {
                                                  passed->result = result;
                                                  passed->yes = true;
                                                });
    if (call.result != CUDA_SUCCESS) return {};
    call.turn.kept = passed;
  }
  call.stalled = !passed->yes;
  call.result = passed->yes ? passed->result : CUDA_SUCCESS;
  return {};
}

}  // namespace

Status EndStreamBehindLibraries(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<CUstream>(HandleKind::kStream, wire);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  call.Erase(HandleKind::kStream, wire);
  call.parked = true;
  session.BehindLibraries(
      [&session, &api = call.api, native, context = call.context->native, header = call.header] {
        CurrentContext::Set(api, context);
        session.Answer(header, api.cuStreamDestroy_v2(native), {});
      });
  return {};
}

Status Serve_cuStreamSynchronize(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  const bool is_barrier = (call.header.flags & kWantReply) == 0;
  StreamState* stream = call.FindStream(wire_stream);
  if (is_barrier && !call.session.ahead().empty())
    call.turn.touched.everything = call.turn.blocked = call.stalled = true;
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  if (stream->context != nullptr) session.contexts().MakeCurrent(stream->context);
  if (is_barrier) return Barrier(call, *stream);
  CUcontext context = stream->context == nullptr ? nullptr : stream->context->native;
  call.parked = session.streams().FenceStream(
      *stream,
      [&session, context, header = call.header](CUresult result) {
        session.output().FlushPrintf(context);
        session.Answer(header, result, {});
      },
      &call.result);
  if (!call.parked) session.output().FlushPrintf(context);
  return {};
}

Status Serve_cuStreamQuery(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  if (call.AnswerNotReady()) return {};
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuStreamQuery(stream->native);
  if (call.result == CUDA_ERROR_NOT_READY || call.session.completion().idle()) return {};
  // Complete, but bytes of copies may be still to be sent, or events to be told of: "ready" may
  // only follow them.
  call.parked = call.session.streams().FenceStream(
      *stream,
      [&session = call.session, header = call.header](CUresult result) {
        session.Answer(header, result, {});
      },
      &call.result);
  return {};
}

Status Serve_cuCtxSynchronize_v2(ServeCall& call) {
  auto wire_context = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.Resolve<CUcontext>(HandleKind::kContext, wire_context);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  ContextState* context =
      session.contexts().at(static_cast<uint16_t>(SplitHandle(wire_context).index));
  session.contexts().MakeCurrent(context);
  call.parked = session.streams().Fence(
      *context,
      [&session, native = context->native, header = call.header](CUresult result) {
        session.output().FlushPrintf(native);
        session.Answer(header, result, {});
      },
      &call.result);
  if (!call.parked) session.output().FlushPrintf(context->native);
  return {};
}

}  // namespace farcall::server
