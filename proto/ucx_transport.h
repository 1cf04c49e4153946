// SPDX-License-Identifier: Apache-2.0
// UCX among the transports that HELLO and WELCOME name: once it is welcomed, each connection of the
// session goes on by UCX (transport/ucx/).
#pragma once

#include "proto/handshake.h"

namespace farcall {

inline constexpr TransportKind kUcxTransport{1};

inline void AskForUcx(Hello* hello) {
  hello->transports |= TransportBit(kUcxTransport);
}
inline bool AsksForUcx(const Hello& hello) {
  return (hello.transports & TransportBit(kUcxTransport)) != 0;
}
inline void GrantUcx(Welcome* welcome) {
  welcome->transport = static_cast<uint64_t>(kUcxTransport);
}
inline bool UsesUcx(const Welcome& welcome) {
  return welcome.transport == static_cast<uint64_t>(kUcxTransport);
}

}  // namespace farcall
