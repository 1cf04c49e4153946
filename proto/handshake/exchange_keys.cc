// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/exchange_keys.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace farcall {

SecretKey HelloSealKey(std::span<const std::byte> greeting, const KeyShare& client,
                       const SecretKey& shared) {
  Hash256 salt = Sha256({BytesOf("farcall 2 hello"), greeting, std::as_bytes(std::span(client))});
  return HkdfExpand(HkdfExtract(salt, shared.bytes()), "farcall 2 hello");
}

Hash256 HelloDigest(std::span<const std::byte> greeting, std::span<const std::byte> hello_open,
                    std::span<const std::byte> fields) {
  // GREETING's header has its length, HELLO's open bytes are of one length.
  return Sha256({BytesOf("farcall 2 client"), greeting, hello_open, fields});
}

Hash256 SessionProof(const SessionKey& key, const Hash256& digest) {
  return HmacSha256(key.bytes(), {BytesOf("farcall 2 session"), std::as_bytes(std::span(digest))});
}

ExchangeKeys DeriveKeys(std::span<const std::byte> greeting, std::span<const std::byte> hello,
                        const SecretKey& shared, std::span<const uint8_t> secret,
                        uint32_t credential) {
  Hash256 salt = Sha256({BytesOf("farcall 2 keys"), greeting, hello});
  Secret<64> both;
  secret = secret.first(std::min(secret.size(), both.size() - shared.size()));
  std::copy(shared.bytes().begin(), shared.bytes().end(), both.data());
  std::copy(secret.begin(), secret.end(), both.data() + shared.size());
  SecretKey root = HkdfExtract(salt, both.bytes().first(shared.size() + secret.size()));
  ExchangeKeys keys;
  keys.answer.key = HkdfExpand(root, "farcall 2 answer");
  keys.answer.credential = credential;
  keys.session = HkdfExpand(root, "farcall 2 session");
  return keys;
}

Result<std::vector<std::byte>> SealAnswer(const AnswerKey& key, HandshakeType type,
                                          std::span<const std::byte> body) {
  std::vector<std::byte> room(sizeof(key.credential) + body.size() + kSealBytes);
  std::memcpy(room.data(), &key.credential, sizeof(key.credential));
  Result<std::vector<std::byte>> packet = MakePacket(type, room);
  if (!packet.ok()) return packet;
  std::vector<std::byte> sealed = Seal(key.key, body, std::span(*packet).first(kAnswerOpenBytes));
  std::copy(sealed.begin(), sealed.end(), packet->begin() + kAnswerOpenBytes);
  return packet;
}

Result<std::vector<std::byte>> SealWelcome(const AnswerKey& key, const Welcome& welcome) {
  return SealAnswer(key, HandshakeType::kWelcome, Encode(welcome));
}

}  // namespace farcall
