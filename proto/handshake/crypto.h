// SPDX-License-Identifier: Apache-2.0
// The primitives of the handshake, from libsodium (linked statically): hashes, HKDF, X25519,
// Ed25519 and an AEAD. Only handshakes and tokens use them; frames are not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall {

using Hash256 = std::array<uint8_t, 32>;
using KeyShare = std::array<uint8_t, 32>;   // the public half of an X25519 key
using SignerKey = std::array<uint8_t, 32>;  // the public half of an Ed25519 key
using Signature = std::array<uint8_t, 64>;

// Overwrites the bytes; the compiler does not remove it.
void Wipe(std::span<uint8_t> bytes);
void Wipe(std::string* text);

// Key material: each copy is wiped when it goes.
template <size_t kBytes>
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret() { Wipe(bytes_); }

  uint8_t* data() { return bytes_.data(); }
  const uint8_t* data() const { return bytes_.data(); }
  static constexpr size_t size() { return kBytes; }
  std::span<uint8_t> bytes() { return bytes_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};
using SecretKey = Secret<32>;

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Hash256 Sha256(std::span<const std::byte> bytes);
// Of the parts in a row. The caller makes sure that no two lists of parts give the same row.
Hash256 Sha256(std::initializer_list<std::span<const std::byte>> parts);
Hash256 HmacSha256(std::span<const uint8_t> key,
                   std::initializer_list<std::span<const std::byte>> parts);

// HKDF with SHA-256 (RFC 5869).
SecretKey HkdfExtract(std::span<const uint8_t> salt, std::span<const uint8_t> secret);
// `out`: at most 255 * 32 bytes.
void HkdfExpand(const SecretKey& key, std::span<const std::byte> info, std::span<uint8_t> out);
SecretKey HkdfExpand(const SecretKey& key, std::string_view purpose);

// A fresh X25519 key, for one connection.
class ExchangeKey {
 public:
  ExchangeKey();
  const KeyShare& share() const { return share_; }
  // Nothing if the peer's share is one of those that make the secret known to all.
  std::optional<SecretKey> SharedWith(const KeyShare& peer) const;

 private:
  SecretKey secret_;
  KeyShare share_{};
};

// Ed25519, the key made from a seed.
class Signer {
 public:
  explicit Signer(const SecretKey& seed);
  const SignerKey& public_key() const { return public_; }
  Signature Sign(std::span<const uint8_t> message) const;

 private:
  Secret<64> secret_;
  SignerKey public_{};
};
bool IsSignedBy(const SignerKey& key, std::span<const uint8_t> message,
                std::span<const uint8_t> signature);

// ChaCha20-Poly1305 (RFC 8439) with the nonce 0: a key seals one message, ever.
inline constexpr size_t kSealBytes = 16;  // a sealed message is so much longer
std::vector<std::byte> Seal(const SecretKey& one_time_key, std::span<const std::byte> plain,
                            std::span<const std::byte> associated);
std::optional<std::vector<std::byte>> Unseal(const SecretKey& one_time_key,
                                             std::span<const std::byte> sealed,
                                             std::span<const std::byte> associated);

bool SameBytes(std::span<const uint8_t> a, std::span<const uint8_t> b);  // constant time
void RandomBytes(std::span<uint8_t> out);

}  // namespace farcall
