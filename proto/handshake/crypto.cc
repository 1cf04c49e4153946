// SPDX-License-Identifier: Apache-2.0
// Hashes, keys and randomness of the handshake. libsodium is used without sodium_init: what is
// called here needs neither its random numbers nor its choice of faster implementations, and its
// start would leave traces in the application's process.
#include "proto/handshake/crypto.h"

#include <sodium.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace farcall {
namespace {

const unsigned char* Raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

constexpr std::array<uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> kZeroNonce{};
static_assert(kSealBytes == crypto_aead_chacha20poly1305_ietf_ABYTES);
static_assert(sizeof(KeyShare) == crypto_scalarmult_BYTES);
static_assert(sizeof(SignerKey) == crypto_sign_PUBLICKEYBYTES);
static_assert(sizeof(Signature) == crypto_sign_BYTES);

}  // namespace

void Wipe(std::span<uint8_t> bytes) {
  sodium_memzero(bytes.data(), bytes.size());
}

void Wipe(std::string* text) {
  sodium_memzero(text->data(), text->size());
  text->clear();
}

Hash256 Sha256(std::span<const std::byte> bytes) {
  return Sha256({bytes});
}

Hash256 Sha256(std::initializer_list<std::span<const std::byte>> parts) {
  crypto_hash_sha256_state state;
  crypto_hash_sha256_init(&state);
  for (std::span<const std::byte> part : parts)
    crypto_hash_sha256_update(&state, Raw(part), part.size());
  Hash256 hash;
  crypto_hash_sha256_final(&state, hash.data());
  return hash;
}

Hash256 HmacSha256(std::span<const uint8_t> key,
                   std::initializer_list<std::span<const std::byte>> parts) {
  crypto_auth_hmacsha256_state state;
  const uint8_t none = 0;  // the library takes no null pointer, not even for an empty key
  crypto_auth_hmacsha256_init(&state, key.empty() ? &none : key.data(), key.size());
  for (std::span<const std::byte> part : parts)
    crypto_auth_hmacsha256_update(&state, Raw(part), part.size());
  Hash256 mac;
  crypto_auth_hmacsha256_final(&state, mac.data());
  sodium_memzero(&state, sizeof(state));
  return mac;
}

SecretKey HkdfExtract(std::span<const uint8_t> salt, std::span<const uint8_t> secret) {
  Hash256 mac = HmacSha256(salt, {std::as_bytes(secret)});
  SecretKey key;
  std::copy(mac.begin(), mac.end(), key.data());
  Wipe(mac);
  return key;
}

void HkdfExpand(const SecretKey& key, std::span<const std::byte> info, std::span<uint8_t> out) {
  Hash256 block{};
  std::span<const std::byte> previous;
  for (uint8_t number = 1; !out.empty(); ++number) {
    block = HmacSha256(key.bytes(), {previous, info, std::as_bytes(std::span(&number, 1))});
    size_t bytes = std::min(out.size(), block.size());
    std::memcpy(out.data(), block.data(), bytes);
    out = out.subspan(bytes);
    previous = std::as_bytes(std::span(block));
  }
  Wipe(block);
}

SecretKey HkdfExpand(const SecretKey& key, std::string_view purpose) {
  SecretKey out;
  HkdfExpand(key, BytesOf(purpose), out.bytes());
  return out;
}

ExchangeKey::ExchangeKey() {
  RandomBytes(secret_.bytes());
  crypto_scalarmult_base(share_.data(), secret_.data());
}

std::optional<SecretKey> ExchangeKey::SharedWith(const KeyShare& peer) const {
  SecretKey shared;
  if (crypto_scalarmult(shared.data(), secret_.data(), peer.data()) != 0 ||
      sodium_is_zero(shared.data(), shared.size()) != 0)
    return std::nullopt;
  return shared;
}

Signer::Signer(const SecretKey& seed) {
  crypto_sign_seed_keypair(public_.data(), secret_.data(), seed.data());
}

Signature Signer::Sign(std::span<const uint8_t> message) const {
  Signature signature;
  crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), secret_.data());
  return signature;
}

bool IsSignedBy(const SignerKey& key, std::span<const uint8_t> message,
                std::span<const uint8_t> signature) {
  return signature.size() == sizeof(Signature) &&
         crypto_sign_verify_detached(signature.data(), message.data(), message.size(),
                                     key.data()) == 0;
}

std::vector<std::byte> Seal(const SecretKey& one_time_key, std::span<const std::byte> plain,
                            std::span<const std::byte> associated) {
  std::vector<std::byte> sealed(plain.size() + kSealBytes);
  crypto_aead_chacha20poly1305_ietf_encrypt(
      reinterpret_cast<unsigned char*>(sealed.data()), nullptr, Raw(plain), plain.size(),
      Raw(associated), associated.size(), nullptr, kZeroNonce.data(), one_time_key.data());
  return sealed;
}

std::optional<std::vector<std::byte>> Unseal(const SecretKey& one_time_key,
                                             std::span<const std::byte> sealed,
                                             std::span<const std::byte> associated) {
  if (sealed.size() < kSealBytes) return std::nullopt;
  std::vector<std::byte> plain(sealed.size() - kSealBytes);
  if (crypto_aead_chacha20poly1305_ietf_decrypt(reinterpret_cast<unsigned char*>(plain.data()),
                                                nullptr, nullptr, Raw(sealed), sealed.size(),
                                                Raw(associated), associated.size(),
                                                kZeroNonce.data(), one_time_key.data()) != 0)
    return std::nullopt;
  return plain;
}

bool SameBytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void RandomBytes(std::span<uint8_t> out) {
  while (!out.empty()) {
    ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got > 0)
      out = out.subspan(static_cast<size_t>(got));
    else if (errno != EINTR)
      std::abort();  // no nonce may ever be guessable, and the kernel offers no other source
  }
}

}  // namespace farcall
