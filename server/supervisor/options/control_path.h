// SPDX-License-Identifier: Apache-2.0
// Where a server's control socket lies: found by the commands that look at it and change it.
#pragma once

#include <string>
#include <vector>

#include "proto/status.h"

namespace farcall::server {

// transport/shm/shm_socket.h says which.
std::string ControlFolder();

// The folder, made if it is missing, for the user alone.
//   Errors  kUnavailable (cannot be made, or is somebody else's)
Result<std::string> MakeControlFolder();

// `<folder>/<port>.sock`: the socket of the server that listens on `url`; a URL without a port
// gives its digits and letters.
std::string ControlPathOf(const std::string& url);

// `<folder>/<port>.shm`, likewise: the socket of its clients over shared memory.
std::string ShmPathOf(const std::string& url);

// The sockets of the servers that this user runs on this machine. Those that killed servers left
// behind are removed.
std::vector<std::string> ControlPaths();
// Of them those of a port, as text: a server listens on each.
std::vector<std::string> ServersHere();

}  // namespace farcall::server
