// SPDX-License-Identifier: Apache-2.0
// UCX and RDMA verbs among the transports that HELLO and WELCOME name: once one is welcomed, each
// connection of the session goes on by it (transport/fabric/).
#pragma once

#include "proto/handshake/handshake.h"

namespace farcall {

inline constexpr TransportKind kUcxTransport{1}, kVerbsTransport{2};

inline bool IsFabric(TransportKind kind) {
  return kind == kUcxTransport || kind == kVerbsTransport;
}
// "ucx", "verbs".
inline const char* FabricName(TransportKind kind) {
  return kind == kVerbsTransport ? "verbs" : "ucx";
}
inline void AskForFabric(TransportKind kind, Hello* hello) {
  hello->transports |= TransportBit(kind);
}
inline bool AsksForFabric(TransportKind kind, const Hello& hello) {
  return (hello.transports & TransportBit(kind)) != 0;
}
inline void GrantFabric(TransportKind kind, Welcome* welcome) {
  welcome->transport = static_cast<uint64_t>(kind);
}
inline bool UsesFabric(TransportKind kind, const Welcome& welcome) {
  return welcome.transport == static_cast<uint64_t>(kind);
}

}  // namespace farcall
