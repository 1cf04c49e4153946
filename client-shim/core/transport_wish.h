// SPDX-License-Identifier: Apache-2.0
// The setting `transport`, FARCALL_TRANSPORT: how a session's bytes should travel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/status.h"

namespace farcall::client {

// kAuto: the endpoint's, or a better one that the server offers.
enum class TransportWish : uint8_t { kAuto, kTcp, kTls, kShm };
inline constexpr TransportWish kDefaultTransport = TransportWish::kAuto;

// One of auto, tcp, tls, shm.
std::optional<TransportWish> ParseTransport(std::string_view text);

// Whether the endpoint can give what is wished: auto takes the endpoint's transport or a better
// one, and shm is also found behind tcp://.   Errors  kInvalid, one line
Status CheckTransport(const std::string& endpoint, TransportWish wish);

// Whether a session at this endpoint may move to shared memory.
bool WantsSharedMemory(const std::string& endpoint, TransportWish wish);

}  // namespace farcall::client
