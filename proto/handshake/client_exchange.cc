// SPDX-License-Identifier: Apache-2.0
#include "proto/handshake/client_exchange.h"

#include <algorithm>
#include <cstring>

#include "proto/codec.h"

namespace farcall {
namespace {

Status CheckWants(const Greeting& greeting, const ClientCredentials& credentials) {
  if (greeting.needs_token && credentials.empty())
    return {Code::kRefused, "the server wants a token; set FARCALL_TOKEN or FARCALL_TOKEN_FILE"};
  // Whoever stands in a server's place would say so, to hear what its client says.
  if (!greeting.needs_token && !credentials.tokens.empty() && !credentials.if_wanted) {
    return {
        Code::kRefused,
        "the server knows no token, so it is not the one that yours is for; unset FARCALL_TOKEN "
        "and FARCALL_TOKEN_FILE for a server without one"};
  }
  return {};
}

// HELLO's fields and room for its proofs, which come last.
std::vector<std::byte> Plain(std::span<const std::byte> fields,
                             const std::vector<std::vector<uint8_t>>& proofs) {
  Builder plain;
  plain.PutBytes(fields.data(), fields.size());
  plain.Put<uint64_t>(proofs.size());
  for (const std::vector<uint8_t>& proof : proofs) plain.PutBytes(proof.data(), proof.size());
  return std::move(plain.mutable_bytes());
}

}  // namespace

Result<ClientExchange> ClientExchange::Answer(std::span<const std::byte> greeting, Hello hello,
                                              const ClientCredentials& held) {
  Result<Greeting> heard = DecodeGreeting(BodyOf(greeting));
  if (!heard.ok()) return heard.status();
  FARCALL_TRY(CheckWants(*heard, held));
  const bool shows_none = held.if_wanted && !heard->needs_token;
  const ClientCredentials none, &credentials = shows_none ? none : held;
  ExchangeKey key;
  std::optional<SecretKey> shared = key.SharedWith(heard->share);
  if (!shared) return Status(Code::kMalformed, "handshake: GREETING has no usable key share");

  ClientExchange exchange;
  std::vector<std::vector<uint8_t>> proofs;
  hello.credentials.clear();
  for (const TokenKeys& token : credentials.tokens) {
    TokenId id = token.verifier().id();
    hello.credentials.push_back({CredentialKind::kToken, {id.begin(), id.end()}});
    exchange.secrets_.push_back(token.verifier().server_key);
    proofs.emplace_back(sizeof(Signature));
  }
  if (credentials.session) {
    hello.credentials.push_back({CredentialKind::kSession, {}});
    exchange.secrets_.push_back(*credentials.session);
    proofs.emplace_back(sizeof(Hash256));
  }
  FARCALL_TRY(CheckHello(hello));
  // The header, which the proofs cover, needs the length first.
  std::vector<std::byte> fields = Encode(hello);
  std::vector<std::byte> room(sizeof(KeyShare) + Plain(fields, proofs).size() + kSealBytes);
  std::memcpy(room.data(), key.share().data(), sizeof(KeyShare));
  Result<std::vector<std::byte>> packet = MakePacket(HandshakeType::kHello, room);
  if (!packet.ok()) return packet.status();
  std::span<const std::byte> open = std::span(*packet).first(kHelloOpenBytes);
  Hash256 digest = HelloDigest(greeting, open, fields);
  for (size_t i = 0; i < credentials.tokens.size(); ++i) {
    Signature signature = credentials.tokens[i].Sign(digest);
    proofs[i].assign(signature.begin(), signature.end());
  }
  if (credentials.session) {
    Hash256 proof = SessionProof(*credentials.session, digest);
    proofs.back().assign(proof.begin(), proof.end());
  }
  std::vector<std::byte> sealed =
      Seal(HelloSealKey(greeting, key.share(), *shared), Plain(fields, proofs), open);
  std::copy(sealed.begin(), sealed.end(), packet->begin() + kHelloOpenBytes);
  exchange.greeting_.assign(greeting.begin(), greeting.end());
  exchange.hello_ = std::move(*packet);
  exchange.shared_ = *shared;
  return exchange;
}

Result<std::vector<std::byte>> ClientExchange::Open(std::span<const std::byte> packet) {
  if (packet.size() < kAnswerOpenBytes + kSealBytes)
    return Status(Code::kMalformed, "handshake: an answer of " + std::to_string(packet.size()) +
                                        " bytes cannot be read");
  uint32_t taken = 0;
  std::memcpy(&taken, packet.data() + sizeof(HandshakeHeader), sizeof(taken));
  const Status stranger(Code::kRefused,
                        "the server cannot prove that it knows the token (or the session): it is "
                        "not the one that it is for, or somebody changes what is sent");
  std::span<const uint8_t> secret;
  if (!secrets_.empty()) {
    if (taken >= secrets_.size()) return stranger;
    secret = secrets_[taken].bytes();
  } else if (taken != kNoCredential) {
    return stranger;
  }
  ExchangeKeys keys = DeriveKeys(greeting_, hello_, shared_, secret, taken);
  std::optional<std::vector<std::byte>> body =
      Unseal(keys.answer.key, packet.subspan(kAnswerOpenBytes), packet.first(kAnswerOpenBytes));
  if (!body) return stranger;
  session_key_ = keys.session;
  return std::move(*body);
}

}  // namespace farcall
