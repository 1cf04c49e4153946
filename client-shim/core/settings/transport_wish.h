// SPDX-License-Identifier: Apache-2.0
// The setting `transport`, FARCALL_TRANSPORT: how a session's bytes should travel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/handshake/handshake.h"
#include "proto/status.h"

namespace farcall::client {

// kAuto: the endpoint's, or a better one that the server offers. kUnset: the same, but a server of
// another host is not believed about this one's sockets.
enum class TransportWish : uint8_t { kUnset, kAuto, kTcp, kTls, kShm, kUcx, kVerbs };
inline constexpr TransportWish kDefaultTransport = TransportWish::kUnset;

// One of auto, tcp, tls, shm, ucx, verbs.
inline constexpr char kTransportNames[] = "auto, tcp, tls, shm, ucx or verbs";
std::optional<TransportWish> ParseTransport(std::string_view text);

// Whether the endpoint can give what is wished: auto takes the endpoint's transport or a better
// one, shm is also found behind tcp://, ucx and verbs behind tcp:// and tls://.   Errors  kInvalid,
// one line
Status CheckTransport(const std::string& endpoint, TransportWish wish);

// Whether a session at this endpoint may move to shared memory, by what is wished; and whether it
// may by where its connection leads: `is_inside_host`, both its ends are of one host.
bool WantsSharedMemory(const std::string& endpoint, TransportWish wish);
bool MayOpenSocketOf(TransportWish wish, bool is_inside_host);

// Which fabric a session at this endpoint is to use, UCX or RDMA: only where somebody has asked for
// it. kTcp: none.
TransportKind WantedFabric(const std::string& endpoint, TransportWish wish);

}  // namespace farcall::client
