// SPDX-License-Identifier: Apache-2.0
// A channel over the records of an established TLS 1.3 connection, on either side.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/tls/tls_keys.h"

namespace farcall {

// Carries on with `channel`, whose handshake made these keys. Until ReadAhead it takes no byte more
// than the record that it needs, so that the connection can be handed over between records.
// `identity`: of the peer, whom the handshake has verified.
//   Errors  kMalformed (keys of another size), kUnsupported
Result<std::unique_ptr<Channel>> MakeTlsChannel(std::unique_ptr<Channel> channel,
                                                const TlsKeys& keys, std::string identity = "");

// Of a connection received from another process: with TLS if there is a state (Channel::HandOver).
//   Errors  kMalformed, kUnsupported
Result<std::unique_ptr<Channel>> AdoptChannel(int fd, std::span<const std::byte> state,
                                              std::string identity = "");

}  // namespace farcall
