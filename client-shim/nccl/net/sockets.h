// SPDX-License-Identifier: Apache-2.0
// TCP between ranks: a socket to be reached at, described by a MeetingId, and one that reaches it.
#pragma once

#include <string>

#include "client-shim/nccl/net/bootstrap_wire.h"

namespace farcall::nccl {

// A non-blocking listener on a free port of every address, and what others need to find it.
//   Errors  ncclSystemError (no socket, no random bytes)
ncclResult_t ListenAnywhere(MeetingId* id, int* listener);

// Tries the addresses in turn, each for three seconds. A blocking socket that `greeting` was sent
// on, or -1.
int ConnectAndSend(const MeetingId& id, const std::string& greeting);

// Blocking, small writes at once, a vanished host noticed within a minute.
void PrepareSocket(int socket);

// Whether `given` is the secret, in a time that does not depend on where they differ.
bool SameSecret(const uint8_t* given, const uint8_t* secret);

}  // namespace farcall::nccl
