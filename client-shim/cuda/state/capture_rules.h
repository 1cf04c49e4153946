// SPDX-License-Identifier: Apache-2.0
// Which streams capture, and what their captures forbid. The server captures relaxed: modes and
// invalidation are decided here.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "client-shim/cuda/state/stream.h"

namespace farcall::client {

// The stream takes part in a capture, a valid one or one that has been invalidated.
inline bool Captures(const Stream* stream) {
  return stream != nullptr &&
         stream->capture.load(std::memory_order_relaxed) != CU_STREAM_CAPTURE_STATUS_NONE;
}
// A capture begins on `origin` by the calling thread. `owned`: the graph is made for it.
void BeginCapture(Stream* origin, CUstreamCaptureMode mode, uint64_t graph, bool owned);
// `stream` has waited for an event of `of`'s capture and takes part in it from now on.
void JoinCapture(Stream* stream, Stream* of);
// A call that may not name a capturing stream named one: its capture is invalid. Returns the call's
// code.
CUresult RefuseOn(Stream* stream);
// The graph was made for the stream's capture; also if it does not capture.
bool OwnsGraph(const Stream* stream);
// Why the calling thread may not end the capture of `origin`; CUDA_SUCCESS if it may.
CUresult MayEndCapture(const Stream* origin);
// A stream that joined a capture goes; the capture goes on. False: it began this one.
bool LeaveCapture(Stream* stream);
// Every stream in this stream's capture leaves it. True: the capture was valid.
bool EndCapture(Stream* origin, bool* owned);

}  // namespace farcall::client
