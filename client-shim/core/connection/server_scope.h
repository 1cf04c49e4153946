// SPDX-License-Identifier: Apache-2.0
// Whose answers a cache may hold: the server's that this process speaks to.
#pragma once

#include <string>

#include "client-shim/core/session/config.h"
#include "client-shim/core/session/session.h"

namespace farcall::client {

// With a session: settings.h's scope, and of a pool's hosts the one it went to.
inline std::string SessionScope() {
  const Config& config = GetConfig();
  const std::string& host = CurrentSession()->endpoint();
  return host == config.endpoint ? config.server_scope : config.server_scope + "|" + host;
}

}  // namespace farcall::client
