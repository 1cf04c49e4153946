// SPDX-License-Identifier: Apache-2.0
// Copies between the client's host memory and the device. The partner is
// client-shim/cuda/state/copy.cc.
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/memory/host_copy.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

Status Serve_cuMemcpyHtoDAsync_v2(ServeCall& call) {
  auto wire_dst = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto transfer = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  std::span<const std::byte> inline_bytes;
  if (transfer == 0) inline_bytes = call.in.GetBytes();
  if (!call.in.Done() || bytes == 0 || (transfer == 0 && inline_bytes.size() != bytes))
    return call.Malformed("body");
  CUdeviceptr dst = call.ResolveAddress(wire_dst, bytes);
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) {
    bool failed = transfer != 0 && !call.rejected() && !call.stalled;
    return failed ? SkipLanded(call, bytes, transfer, offset) : call.RejectStatus();
  }
  call.session.streams().MarkActive(*stream);
  call.session.streams().NoteWork(*stream);
  CopyIn copy = [&](const std::byte* source, uint64_t at, uint64_t length) {
    return call.api.cuMemcpyHtoDAsync_v2(dst + at, source, length, stream->native);
  };
  if (transfer == 0) return UploadInline(call, *stream, inline_bytes, copy);
  return UploadLanded(call, *stream, bytes, transfer, offset, copy);
}

Status Serve_cuMemcpyDtoHAsync_v2(ServeCall& call) {
  auto wire_src = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  auto transfer = call.in.Get<uint64_t>();
  if (!call.in.Done() || bytes == 0) return call.Malformed("body");
  CUdeviceptr src = call.ResolveAddress(wire_src, bytes);
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) return call.RejectStatus();
  if (call.session.streams().capturing(stream->native)) {
    call.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    call.detail = "cuMemcpyDtoHAsync_v2: a copy to the host cannot be captured";
    return {};
  }
  call.session.streams().MarkActive(*stream);
  CopyOut copy = [&](std::byte* destination, uint64_t at, uint64_t length) {
    return call.api.cuMemcpyDtoHAsync_v2(destination, src + at, length, stream->native);
  };
  if (transfer == 0) return ReadInline(call, *stream, bytes, copy);
  return ReadInChunks(call, *stream, bytes, transfer, copy);
}

}  // namespace farcall::server
