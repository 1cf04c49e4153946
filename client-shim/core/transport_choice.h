// SPDX-License-Identifier: Apache-2.0
// By which transport a session's bytes travel: the endpoint's, or a better one that the server has.
#pragma once

#include "client-shim/core/connect.h"
#include "client-shim/core/transport_wish.h"

namespace farcall::client {

// Moves a session that has been welcomed over tcp:// to the server's shared memory, by a resume
// over its socket. The session stays where it is if that fails.
//   Errors  why it cannot be: the server offers none, or its socket cannot be used from here
Status MoveToSharedMemory(Connected* connected);

}  // namespace farcall::client
