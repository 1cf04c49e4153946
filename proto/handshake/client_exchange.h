// SPDX-License-Identifier: Apache-2.0
// The client's side of a handshake, as pure functions of bytes; transport/handshake.h moves them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/handshake/exchange_keys.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/token.h"

namespace farcall {

// By what a client says who it is. Nothing: by nothing.
struct ClientCredentials {
  std::vector<TokenKeys> tokens;
  std::optional<SessionKey> session;  // of the session that HELLO names
  // Not shown to a server that knows no tokens, rather than refuse it: for one that has proved who
  // it is by a certificate.
  bool if_wanted = false;

  static ClientCredentials OfToken(std::string_view token) {  // "": none
    ClientCredentials credentials;
    if (!token.empty()) credentials.tokens.emplace_back(token);
    return credentials;
  }
  static ClientCredentials OfSession(const SessionKey& key) { return {{}, key, false}; }
  bool empty() const { return tokens.empty() && !session; }
};

class ClientExchange {
 public:
  // Answers a GREETING's packet.
  //   Errors  kMalformed, kInvalid (a field of `hello` beyond its bound), kRefused (the server
  //   wants
  //           a token and there is none, or the reverse)
  static Result<ClientExchange> Answer(std::span<const std::byte> greeting, Hello hello,
                                       const ClientCredentials& credentials);
  // HELLO's packet.
  const std::vector<std::byte>& hello() const { return hello_; }
  // The body of an answer's packet (WELCOME, REDIRECT), which its sender could only seal if he
  // knows one of the credentials, where any were shown.
  //   Errors  kMalformed, kRefused (it does not know them)
  Result<std::vector<std::byte>> Open(std::span<const std::byte> packet);
  // After Open: the key of a session that WELCOME began.
  const SessionKey& session_key() const { return session_key_; }

 private:
  ClientExchange() = default;

  std::vector<std::byte> greeting_, hello_;
  std::vector<SecretKey> secrets_;  // of the credentials, in HELLO's order
  SecretKey shared_;
  SessionKey session_key_;
};

}  // namespace farcall
