// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "proto/handshake/session_features.h"

namespace farcall {
namespace {

// Variables that change what libcuda or a math library computes or how; nothing that names a file
// or a program.
constexpr std::array<std::string_view, 9> kForwarded = {
    "CUBLAS_WORKSPACE_CONFIG",     "CUDA_AUTO_BOOST",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DISABLE_PTX_JIT",        "CUDA_FORCE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING",        "CUDA_MODULE_LOADING",
    "NVIDIA_TF32_OVERRIDE"};

// Reads one packet of one of the `expected` types. `peer` and `self` are "server" and "client" or
// the reverse.
Result<std::vector<std::byte>> Read(Channel& channel, std::initializer_list<HandshakeType> expected,
                                    const char* peer, const char* self,
                                    Clock::time_point deadline) {
  std::array<std::byte, sizeof(HandshakeHeader)> header;
  FARCALL_TRY(ReceiveAll(channel, header, deadline));
  Result<size_t> bytes = PacketBytes(header, expected, peer, self);
  if (!bytes.ok()) {
    // A wrong major is the user's to mend on either side; the rest is this peer's.
    return bytes.status().code() == Code::kUnsupported
               ? bytes.status()
               : Status(bytes.status().code(),
                        channel.PeerName() + ": " + bytes.status().message());
  }
  std::vector<std::byte> packet(*bytes);
  std::copy(header.begin(), header.end(), packet.begin());
  FARCALL_TRY(ReceiveAll(channel, std::span(packet).subspan(header.size()), deadline));
  return packet;
}

Status Send(Channel& channel, const Result<std::vector<std::byte>>& packet,
            Clock::time_point deadline) {
  if (!packet.ok()) return packet.status();
  return SendAll(channel, *packet, deadline);
}

Status RefusalIn(std::span<const std::byte> packet) {
  Result<Refuse> refuse = DecodeRefuse(BodyOf(packet));
  return refuse.ok() ? Status(refuse->code, refuse->message) : refuse.status();
}

// With whom one speaks, where the exchange cannot know it.
Status Named(const Channel& channel, const Status& status) {
  return {status.code(), channel.PeerName() + ": " + status.message()};
}

struct Answer {
  std::vector<std::byte> body;
  SessionKey key;
};

// The client's side up to the answer, which is of type `wanted` or a refusal.
Result<Answer> Converse(Channel& channel, Hello hello, const ClientCredentials& credentials,
                        HandshakeType wanted, Clock::time_point deadline) {
  Result<std::vector<std::byte>> packet = Read(
      channel, {HandshakeType::kGreeting, HandshakeType::kRefuse}, "server", "client", deadline);
  const Code failed = packet.ok() ? Code::kOk : packet.status().code();
  if (failed == Code::kDisconnected || failed == Code::kTimeout) {
    return Status(failed, channel.PeerName() + ": no greeting (" + packet.status().message() +
                              "); does a Farcall server listen on this port?");
  }
  if (!packet.ok()) return packet.status();
  if (TypeOf(*packet) == HandshakeType::kRefuse) return RefusalIn(*packet);
  Result<ClientExchange> exchange = ClientExchange::Answer(*packet, std::move(hello), credentials);
  if (!exchange.ok()) return Named(channel, exchange.status());
  FARCALL_TRY(SendAll(channel, exchange->hello(), deadline));
  packet = Read(channel, {wanted, HandshakeType::kRefuse}, "server", "client", deadline);
  if (!packet.ok()) return packet.status();
  if (TypeOf(*packet) == HandshakeType::kRefuse) return RefusalIn(*packet);
  Result<std::vector<std::byte>> body = exchange->Open(*packet);
  if (!body.ok()) return Named(channel, body.status());
  return Answer{std::move(*body), exchange->session_key()};
}

}  // namespace

Result<ReceivedHello> GreetAndReceive(Channel& channel, const ServerExchange& exchange,
                                      Clock::time_point deadline) {
  FARCALL_TRY(SendAll(channel, exchange.greeting(), deadline));
  Result<std::vector<std::byte>> packet =
      Read(channel, {HandshakeType::kHello}, "client", "server", deadline);
  if (!packet.ok()) return packet.status();
  return exchange.Receive(*packet);
}

Status SendWelcome(Channel& channel, const AnswerKey& key, const Welcome& welcome,
                   Clock::time_point deadline) {
  return Send(channel, SealWelcome(key, welcome), deadline);
}

Status SendQueryAnswer(Channel& channel, const AnswerKey& key, const QueryAnswer& answer,
                       Clock::time_point deadline) {
  return Send(channel, SealAnswer(key, HandshakeType::kWelcome, Encode(answer)), deadline);
}

Status SendRefuse(Channel& channel, const Refuse& refuse, Clock::time_point deadline) {
  return SendAll(channel, MakeRefusal(refuse), deadline);
}

Status SendRedirect(Channel& channel, const AnswerKey& key, const Redirect& redirect,
                    Clock::time_point deadline) {
  return Send(channel, SealAnswer(key, HandshakeType::kRedirect, Encode(redirect)), deadline);
}

Result<Welcomed> ClientHandshake(Channel& channel, Hello hello,
                                 const ClientCredentials& credentials, Clock::time_point deadline) {
  Result<Answer> answer =
      Converse(channel, std::move(hello), credentials, HandshakeType::kWelcome, deadline);
  if (!answer.ok()) return answer.status();
  Result<Welcome> welcome = DecodeWelcome(answer->body);
  if (!welcome.ok()) return welcome.status();
  return Welcomed{std::move(*welcome), answer->key};
}

Result<QueryAnswer> QueryHandshake(Channel& channel, Hello hello,
                                   const ClientCredentials& credentials,
                                   Clock::time_point deadline) {
  hello.features |= FeatureBit(SessionFeature::kQuery);
  Result<Answer> answer =
      Converse(channel, std::move(hello), credentials, HandshakeType::kWelcome, deadline);
  return answer.ok() ? DecodeQueryAnswer(answer->body) : Result<QueryAnswer>(answer.status());
}

Result<Redirect> PoolHandshake(Channel& channel, Hello hello, const ClientCredentials& credentials,
                               Clock::time_point deadline) {
  Result<Answer> answer =
      Converse(channel, std::move(hello), credentials, HandshakeType::kRedirect, deadline);
  if (!answer.ok()) return answer.status();
  return DecodeRedirect(answer->body);
}

bool IsForwardedVariable(std::string_view name) {
  return std::find(kForwarded.begin(), kForwarded.end(), name) != kForwarded.end();
}

std::span<const std::string_view> ForwardedVariables() {
  return kForwarded;
}

}  // namespace farcall
