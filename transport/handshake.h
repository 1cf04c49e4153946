// SPDX-License-Identifier: Apache-2.0
// The conversation before the log: the server greets, the client says hello, the server welcomes or
// refuses. Blocking, with deadlines; every size is checked against its bound before anything is
// read.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proto/handshake.h"
#include "proto/status.h"
#include "transport/channel.h"

namespace farcall {

// ---- Server side, in this order. Who it is and whether it may in (the proof) is the caller's to
// judge.

Status SendGreeting(Channel& channel, const Greeting& greeting, Clock::time_point deadline);
//   Errors  kMalformed (not a hello, too large, unreadable), kUnsupported (another wire major: send
//   it back with
//           SendRefuse, the client shows the message), kTimeout, kDisconnected
Result<Hello> ReadHello(Channel& channel, Clock::time_point deadline);
//   Errors  kInternal (larger than kMaxWelcomeBytes), kTimeout, kDisconnected
Status SendWelcome(Channel& channel, const Welcome& welcome, Clock::time_point deadline);
Status SendRefuse(Channel& channel, const Refuse& refuse, Clock::time_point deadline);
Status SendRedirect(Channel& channel, const Redirect& redirect, Clock::time_point deadline);

// ---- Client side: the whole conversation.

// Reads the greeting, draws a nonce, proves `key` (empty: the proof stays zero), says `hello` and
// reads the answer.
//   Errors  what the server's refusal carries (its code and its message), kUnsupported (another
//   wire major),
//           kMalformed (no Farcall server there), kRefused (it wants a token and `key` is empty),
//           kTimeout, kDisconnected
//   Thread  any; blocks
Result<Welcome> ClientHandshake(Channel& channel, Hello hello, std::span<const uint8_t> key,
                                Clock::time_point deadline);
// The same with a pool, which tells where to go.
//   Errors  as above; kMalformed too if a server is there and no pool
Result<Redirect> PoolHandshake(Channel& channel, Hello hello, std::span<const uint8_t> key,
                               Clock::time_point deadline);

// Whether a client's variable may be set in a worker's environment (before it loads libcuda).
bool IsForwardedVariable(std::string_view name);
// All names for which IsForwardedVariable is true: what a client looks up in its own environment.
std::span<const std::string_view> ForwardedVariables();

}  // namespace farcall
