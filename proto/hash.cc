// SPDX-License-Identifier: Apache-2.0
// Hashes and randomness of the handshake.
#include <sodium.h>
#include <sys/random.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "proto/handshake.h"

namespace farcall {
namespace {

template <typename T>
void Mix(crypto_auth_hmacsha256_state& state, const T* data, size_t count) {
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(data),
                                count * sizeof(T));
}

}  // namespace

Hash256 Sha256(std::span<const std::byte> bytes) {
  Hash256 hash;
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(bytes.data()),
                     bytes.size());
  return hash;
}

Hash256 HelloProof(std::span<const uint8_t> key, const Nonce& server, const Hello& hello) {
  constexpr std::string_view kPurpose = "farcall-hello";
  uint8_t role = static_cast<uint8_t>(hello.role);
  const uint8_t lane[4] = {static_cast<uint8_t>(hello.lane), static_cast<uint8_t>(hello.lane >> 8),
                           static_cast<uint8_t>(hello.lane >> 16),
                           static_cast<uint8_t>(hello.lane >> 24)};
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  Mix(state, kPurpose.data(), kPurpose.size());
  Mix(state, server.data(), server.size());
  Mix(state, hello.nonce.data(), hello.nonce.size());
  Mix(state, &role, 1);
  Mix(state, lane, sizeof(lane));
  Mix(state, hello.session.data(), hello.session.size());
  Hash256 proof;
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

bool SameBytes(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

void RandomBytes(std::span<uint8_t> out) {
  while (!out.empty()) {
    ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got > 0) {
      out = out.subspan(static_cast<size_t>(got));
    } else if (errno != EINTR) {
      std::abort();  // no nonce may ever be guessable, and the kernel offers no other source
    }
  }
}

}  // namespace farcall
