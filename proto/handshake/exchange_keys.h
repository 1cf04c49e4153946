// SPDX-License-Identifier: Apache-2.0
// What both sides of a handshake make of what was said: the key that seals HELLO, what the client's
// proofs cover, and the keys of the answer and of the session. docs/reference/wire.md has the
// formulas.
#pragma once

#include <span>
#include <vector>

#include "proto/handshake/crypto.h"
#include "proto/handshake/handshake.h"

namespace farcall {

inline constexpr uint32_t kNoCredential = ~0u;

// Seals the one answer to a HELLO, and so proves who gives it. It opens nothing else: neither the
// session's key nor a token's can be had from it, so a worker may hold it.
struct AnswerKey {
  SecretKey key;
  uint32_t credential = kNoCredential;  // which of HELLO's was taken
};

// A packet of that type (WELCOME, REDIRECT).   Errors  kInternal (too large)
Result<std::vector<std::byte>> SealAnswer(const AnswerKey& key, HandshakeType type,
                                          std::span<const std::byte> body);
Result<std::vector<std::byte>> SealWelcome(const AnswerKey& key, const Welcome& welcome);

// ---- for server_exchange.cc and client_exchange.cc

// HELLO's packet is its header, the client's share, and the rest sealed.
inline constexpr size_t kHelloOpenBytes = sizeof(HandshakeHeader) + sizeof(KeyShare);
inline constexpr size_t kAnswerOpenBytes = sizeof(HandshakeHeader) + sizeof(uint32_t);

SecretKey HelloSealKey(std::span<const std::byte> greeting, const KeyShare& client,
                       const SecretKey& shared);
// What is signed: GREETING's packet, HELLO's open bytes, HELLO's fields.
Hash256 HelloDigest(std::span<const std::byte> greeting, std::span<const std::byte> hello_open,
                    std::span<const std::byte> fields);
Hash256 SessionProof(const SessionKey& key, const Hash256& digest);

struct ExchangeKeys {
  AnswerKey answer;
  SessionKey session;
};
// `secret`: the accepted credential's, which both sides have; empty without one.
ExchangeKeys DeriveKeys(std::span<const std::byte> greeting, std::span<const std::byte> hello,
                        const SecretKey& shared, std::span<const uint8_t> secret,
                        uint32_t credential);

}  // namespace farcall
