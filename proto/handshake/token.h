// SPDX-License-Identifier: Apache-2.0
// A token's two sides. From the text that a client has come an Ed25519 key, with which it signs,
// and a key that proves the server to it. A server keeps the public half and that key: with both
// one can pose as this server to those clients, but not log in anywhere.
//
// Tokens are random (`farcall token new`: 256 bits), so they are stretched by HKDF and by nothing
// slower: a token that people can guess can also be guessed from a recorded handshake.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/handshake/crypto.h"
#include "proto/status.h"

namespace farcall {

using TokenId = std::array<uint8_t, 8>;  // the first bytes of the public key's SHA-256

// What a server keeps of a token.
struct TokenVerifier {
  SignerKey public_key{};
  SecretKey server_key;
  std::string name;  // for people: log, audit, lists

  TokenId id() const;
  // Whose the sessions and images of this token's holders are; no secret, and one word.
  std::string Tenant() const;
};

// Whose those are of a client that a certificate's identity names: one word, as of a token.
std::string CertificateTenant(std::string_view identity);

// What a client makes of its token.
class TokenKeys {
 public:
  explicit TokenKeys(std::string_view token);
  const TokenVerifier& verifier() const { return verifier_; }
  Signature Sign(std::span<const uint8_t> message) const { return signer_.Sign(message); }

 private:
  TokenKeys(const SecretKey& root);
  Signer signer_;
  TokenVerifier verifier_;
};

inline constexpr size_t kMinTokenCharacters = 22;  // 128 bits, if they are random
inline constexpr size_t kMaxTokens = 1024;         // that one server knows
inline constexpr size_t kMaxTokenName = 64;

std::string NewToken();

// A line of a verifier file: "farcall-verifier-1 PUBLIC-KEY SERVER-KEY NAME", keys in hexadecimal.
std::string ToText(const TokenVerifier& verifier);
//   Errors  kInvalid, without the line
Result<TokenVerifier> ParseVerifier(std::string_view line);
// Whether a token's name is printable, without spaces, and short.   Errors  kInvalid
Status CheckTokenName(std::string_view name);

// The one whose token this is, or nullptr; the time taken does not tell which.
const TokenVerifier* FindToken(std::span<const TokenVerifier> known, std::string_view token);

}  // namespace farcall
