// SPDX-License-Identifier: Apache-2.0
// The messages of the process that shakes hands by TLS (server/tls/gateway.h).
#pragma once

#include "server/control/field.h"
#include "server/control/message.h"

namespace farcall::server::control {

// ---- gateway -> supervisor

// The first message: it accepts connections.
struct TlsReady {
  static constexpr Type kType = Type::kTlsReady;
  static constexpr Direction kDirection = Direction::kFromTlsGateway;
  static constexpr Carries kCarries = Carries::kNothing;
  static auto Fields(auto&) { return std::tie(); }
};

// Carries a connection whose TLS handshake is complete.
struct TlsConnected {
  static constexpr Type kType = Type::kTlsConnected;
  static constexpr Direction kDirection = Direction::kFromTlsGateway;
  static constexpr Carries kCarries = Carries::kSocket;
  Text<256> keys{};      // TlsKeys
  Text<240> identity{};  // the client's certificate's (transport/tls/identity.h); empty: none
  static auto Fields(auto& self) { return std::tie(self.keys, self.identity); }
};

// Its files do not do: it ends, or the previous ones stay in use. For people.
struct TlsWarning {
  static constexpr Type kType = Type::kTlsWarning;
  static constexpr Direction kDirection = Direction::kFromTlsGateway;
  static constexpr Carries kCarries = Carries::kNothing;
  Reason why{};
  static auto Fields(auto& self) { return std::tie(self.why); }
};

}  // namespace farcall::server::control
