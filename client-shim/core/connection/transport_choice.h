// SPDX-License-Identifier: Apache-2.0
// By which transport a session's bytes travel: the endpoint's, or a better one that the server has.
#pragma once

#include "client-shim/core/connection/connect.h"
#include "client-shim/core/settings/transport_wish.h"

namespace farcall::client {

// Moves a session that has been welcomed over tcp:// to the server's shared memory, by a resume
// over its socket. The session stays where it is if that fails.
//   Errors  why it cannot be: the server offers none, or its socket cannot be used from here
Status MoveToSharedMemory(Connected* connected);

// Whether this process can use UCX, or RDMA: before anything is asked of a server.
//   Errors  kUnavailable, one line
Status CheckFabric(TransportKind kind);
// A welcomed connection goes on by it: of a new session, or of one that uses it already.
//   Errors  kUnsupported (the server does not), kUnavailable, kMalformed, kDisconnected, kTimeout
Status MoveToFabric(TransportKind kind, const Welcome& welcome, Clock::time_point deadline,
                    std::unique_ptr<Channel>* channel);
Status MoveToFabric(TransportKind kind, LinkRole role, Clock::time_point deadline,
                    std::unique_ptr<Channel>* channel);

}  // namespace farcall::client
