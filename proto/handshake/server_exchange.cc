// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/server_exchange.h"

#include <algorithm>
#include <cstring>

#include "proto/codec.h"

namespace farcall {
namespace {

Status Malformed(const std::string& what) {
  return {Code::kMalformed, "handshake: HELLO " + what};
}

std::vector<std::byte> MakeGreeting(const KeyShare& share, bool needs_token, std::string version) {
  Greeting greeting;
  RandomBytes(greeting.nonce);
  greeting.share = share;
  greeting.needs_token = needs_token;
  greeting.server_version = std::move(version);
  return std::move(*MakePacket(HandshakeType::kGreeting, Encode(greeting)));
}

}  // namespace

ServerExchange::ServerExchange(bool needs_token, std::string server_version)
    : greeting_(MakeGreeting(key_.share(), needs_token, std::move(server_version))) {}

Result<ReceivedHello> ServerExchange::Receive(std::span<const std::byte> packet) const {
  if (packet.size() < kHelloOpenBytes)
    return Malformed("of " + std::to_string(packet.size()) + " bytes cannot be read");
  KeyShare client;
  std::memcpy(client.data(), packet.data() + sizeof(HandshakeHeader), client.size());
  std::optional<SecretKey> shared = key_.SharedWith(client);
  if (!shared) return Malformed("has no usable key share");
  std::span<const std::byte> open = packet.first(kHelloOpenBytes);
  std::optional<std::vector<std::byte>> plain =
      Unseal(HelloSealKey(greeting_, client, *shared), packet.subspan(kHelloOpenBytes), open);
  if (!plain) return Malformed("was changed on its way, or is another connection's");
  Reader in(*plain);
  std::span<const std::byte> fields = in.GetBytes();
  size_t count = in.GetCount(8);
  if (count > kMaxCredentials) in.Fail();
  ReceivedHello heard;
  for (size_t i = 0; in.ok() && i < count; ++i) {
    std::span<const std::byte> proof = in.GetBytes();
    auto* at = reinterpret_cast<const uint8_t*>(proof.data());
    heard.proofs_.emplace_back(at, at + proof.size());
  }
  if (!in.Done()) return Malformed("of " + std::to_string(packet.size()) + " bytes cannot be read");
  Result<Hello> hello = DecodeHello(fields);
  if (!hello.ok()) return hello.status();
  if (hello->credentials.size() != count) {
    return Malformed("names " + std::to_string(hello->credentials.size()) +
                     " credentials and has " + std::to_string(count) + " proofs");
  }
  heard.hello_ = std::move(*hello);
  heard.digest_ = HelloDigest(greeting_, open, fields);
  heard.greeting_ = greeting_;
  heard.packet_.assign(packet.begin(), packet.end());
  heard.shared_ = *shared;
  return heard;
}

std::optional<ReceivedHello::Accepted> ReceivedHello::AcceptToken(
    std::span<const TokenVerifier> known) const {
  std::vector<TokenId> ids;  // a hash each: whoever may connect has this done
  ids.reserve(known.size());
  for (const TokenVerifier& token : known) ids.push_back(token.id());
  for (size_t i = 0; i < hello_.credentials.size(); ++i) {
    const Credential& shown = hello_.credentials[i];
    if (shown.kind != CredentialKind::kToken) continue;
    for (size_t k = 0; k < known.size(); ++k)
      if (SameBytes(shown.id, ids[k]) && IsSignedBy(known[k].public_key, digest_, proofs_[i]))
        return Accepted{Keys(known[k].server_key.bytes(), i), &known[k]};
  }
  return std::nullopt;
}

std::optional<ExchangeKeys> ReceivedHello::AcceptSession(const SessionKey& key) const {
  for (size_t i = 0; i < hello_.credentials.size(); ++i)
    if (hello_.credentials[i].kind == CredentialKind::kSession &&
        SameBytes(proofs_[i], SessionProof(key, digest_)))
      return Keys(key.bytes(), i);
  return std::nullopt;
}

ExchangeKeys ReceivedHello::AcceptAnyone() const {
  return Keys({}, kNoCredential);
}

ExchangeKeys ReceivedHello::Keys(std::span<const uint8_t> secret, size_t credential) const {
  return DeriveKeys(greeting_, packet_, shared_, secret, static_cast<uint32_t>(credential));
}

Result<size_t> HelloPacketBytes(std::span<const std::byte, sizeof(HandshakeHeader)> header) {
  return PacketBytes(header, {HandshakeType::kHello}, "client", "server");
}

std::vector<std::byte> MakeRefusal(Refuse refuse) {
  if (refuse.code == Code::kOk) refuse.code = Code::kRefused;
  // Encode cuts the message to its bound.
  return std::move(*MakePacket(HandshakeType::kRefuse, Encode(refuse)));
}

}  // namespace farcall
