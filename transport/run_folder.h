// SPDX-License-Identifier: Apache-2.0
// Where the sockets of this user's servers are.
#pragma once

#include <cstdint>
#include <string>

#include "transport/url.h"

namespace farcall {

// For the sockets of this user's servers: $FARCALL_RUN_DIR, else /run/farcall for root, else
// farcall/ in XDG_RUNTIME_DIR, else /tmp/farcall-UID.
std::string RunFolder();
// Where the server of a port listens for shm://, unless it is told otherwise.
std::string DefaultShmPath(uint16_t port = kServerPort);

}  // namespace farcall
