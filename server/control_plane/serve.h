// SPDX-License-Identifier: Apache-2.0
// `farcall-control serve`: started by a supervisor, ends with it.
#pragma once

#include <string>

namespace farcall::control_plane {

// Descriptors: 3 the supervisor's control socket, 4 the listening socket of the callers.
// `metrics`: host:port for Prometheus, or empty. The process's exit code.
int Serve(const std::string& metrics);

}  // namespace farcall::control_plane
