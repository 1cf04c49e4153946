// SPDX-License-Identifier: Apache-2.0
// The conversation before the log, over a channel: blocking, with deadlines; every size is checked
// against its bound before anything is read. What the packets say and prove:
// proto/handshake/server_exchange.h, proto/handshake/client_exchange.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "proto/handshake/client_exchange.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/query_answer.h"
#include "proto/handshake/server_exchange.h"
#include "proto/status.h"
#include "transport/channel.h"

namespace farcall {

// ---- Server side. Whether the client may in is the caller's to judge.

// Greets by `exchange` and hears the HELLO.
//   Errors  kMalformed (not a hello, too large, unreadable), kUnsupported (another wire major: send
//           it back with SendRefuse, the client shows the message), kTimeout, kDisconnected
Result<ReceivedHello> GreetAndReceive(Channel& channel, const ServerExchange& exchange,
                                      Clock::time_point deadline);
//   Errors  kInternal (larger than kMaxWelcomeBytes), kTimeout, kDisconnected
Status SendWelcome(Channel& channel, const AnswerKey& key, const Welcome& welcome,
                   Clock::time_point deadline);
Status SendQueryAnswer(Channel& channel, const AnswerKey& key, const QueryAnswer& answer,
                       Clock::time_point deadline);
Status SendRefuse(Channel& channel, const Refuse& refuse, Clock::time_point deadline);
Status SendRedirect(Channel& channel, const AnswerKey& key, const Redirect& redirect,
                    Clock::time_point deadline);

// ---- Client side: the whole conversation.

struct Welcomed {
  Welcome welcome;
  SessionKey key;  // for lanes and resume of a session that is new
};
// Hears the greeting, says `hello` with its proofs, and reads the answer, whose sender has to prove
// himself too.
//   Errors  what the server's refusal carries (its code and its message), kUnsupported (another
//           wire major), kMalformed (no Farcall server there), kRefused (it wants a token and there
//           is none, or cannot prove that it knows it), kInvalid (a field of `hello` is too long),
//           kTimeout, kDisconnected
//   Thread  any; blocks
Result<Welcomed> ClientHandshake(Channel& channel, Hello hello,
                                 const ClientCredentials& credentials, Clock::time_point deadline);
// Asks what is there, by `hello` with SessionFeature::kQuery.   Errors  as above
Result<QueryAnswer> QueryHandshake(Channel& channel, Hello hello,
                                   const ClientCredentials& credentials,
                                   Clock::time_point deadline);
// The same with a pool, which tells where to go.
//   Errors  as above; kMalformed too if a server is there and no pool
Result<Redirect> PoolHandshake(Channel& channel, Hello hello, const ClientCredentials& credentials,
                               Clock::time_point deadline);

// Whether a client's variable may be set in a worker's environment (before it loads libcuda).
bool IsForwardedVariable(std::string_view name);
// All names for which IsForwardedVariable is true: what a client looks up in its own environment.
std::span<const std::string_view> ForwardedVariables();

}  // namespace farcall
