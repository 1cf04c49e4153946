// SPDX-License-Identifier: Apache-2.0
// The server's side of a handshake, as pure functions of bytes: no sockets, no waiting. A server's
// event loop uses it so:
//
//   ServerExchange exchange(needs_token, version);    // per connection; a few hundred bytes
//   send exchange.greeting()
//   receive sizeof(HandshakeHeader) bytes; HelloPacketBytes() says how many the packet has in all
//   receive the rest
//   Result<ReceivedHello> heard = exchange.Receive(packet);   // opens it; nobody is known yet
//   heard->AcceptToken(verifiers) / AcceptSession(key) / AcceptAnyone()
//   answer by SealAnswer(keys->answer, ...), or have a worker do so with keys->answer alone
//
// A refusal is a packet of its own (MakeRefusal), at any time, and neither sealed nor proved.
// Thread: an object by one thread at a time; nothing is shared between objects.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/handshake/exchange_keys.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/token.h"

namespace farcall {

// A HELLO that was opened: its fields are what one client said, to this server on this connection,
// but nobody vouches for them until one of the Accept functions does.
class ReceivedHello {
 public:
  const Hello& hello() const { return hello_; }
  Hello& hello() { return hello_; }

  // The first of its tokens that is one of `known`, and was proved.
  struct Accepted {
    ExchangeKeys keys;
    const TokenVerifier* token = nullptr;
  };
  std::optional<Accepted> AcceptToken(std::span<const TokenVerifier> known) const;
  // A lane or a resumed log, by the key of the session that hello().session names.
  std::optional<ExchangeKeys> AcceptSession(const SessionKey& key) const;
  // Without a proof: an open server's client, or one whose lease is good.
  ExchangeKeys AcceptAnyone() const;

 private:
  friend class ServerExchange;
  ExchangeKeys Keys(std::span<const uint8_t> secret, size_t credential) const;

  Hello hello_;
  std::vector<std::vector<uint8_t>> proofs_;  // as hello_.credentials
  Hash256 digest_{};                          // what they prove
  std::vector<std::byte> greeting_, packet_;
  SecretKey shared_;
};

class ServerExchange {
 public:
  ServerExchange(bool needs_token, std::string server_version);
  // GREETING's packet.
  const std::vector<std::byte>& greeting() const { return greeting_; }
  // `packet`: a whole HELLO, of the size that its header says.
  //   Errors  kMalformed (unreadable, or not said to this server on this connection)
  Result<ReceivedHello> Receive(std::span<const std::byte> packet) const;

 private:
  ExchangeKey key_;
  std::vector<std::byte> greeting_;
};

// How long the packet is that begins so, header included.
//   Errors  kMalformed, kUnsupported (another wire major: its message goes into a refusal)
Result<size_t> HelloPacketBytes(std::span<const std::byte, sizeof(HandshakeHeader)> header);
// REFUSE's packet.
std::vector<std::byte> MakeRefusal(Refuse refuse);

}  // namespace farcall
