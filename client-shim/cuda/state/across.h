// SPDX-License-Identifier: Apache-2.0
// What programs do with two devices at once. With devices of two servers (core/session/routing.h)
// copies go through this process, and a stream waits for the other server's event without holding
// up anything else. Streams here are wire values where they are numbers.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "client-shim/core/session/session.h"
#include "client-shim/cuda/state/stream.h"

namespace farcall::client {

// Whose a stream is; a default stream is the current context's. nullptr: no such stream.
Context* ContextOfStream(uint64_t stream);
Session* SessionOfStream(uint64_t stream);

// `stream`, one server's, goes on once `event`, another's, has completed as it was recorded last.
CUresult WaitAcross(CUstream stream, Event* event, CUevent handle);

// Whether a copy between device memory has to go by CopyAcross: its ends are of two servers, or of
// two devices of which the stream's cannot reach the other's memory. Where it can, it may when this
// returns: a copy between devices needs no peer access that the program has enabled.
//   *status  of asking for that
bool IsAcross(CUdeviceptr dst, CUdeviceptr src, uint64_t stream, CUresult* status);
// The current context's device may reach the memory of another of its server's when this returns.
CUresult AskPeerAccess(int server_device);
// In the stream's order. On a stream of the application's own, of either device or another, it
// returns at once; on a default stream when it is done, behind all that both contexts were given.
CUresult CopyAcross(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream);

// The context to reach device memory of a server by; nullptr: it has none.
Context* ContextAt(CUdeviceptr address);

// A copy between the host and the memory of one device on a stream of another's: no device need
// reach another's memory. Waits for the stream, so that the copy may go by the default stream of
// the context that is returned, and be waited for as well. nullptr: the stream will do.
//   *status  of that wait
Context* AwaitElsewhere(CUdeviceptr address, uint64_t stream, CUresult* status);

}  // namespace farcall::client
