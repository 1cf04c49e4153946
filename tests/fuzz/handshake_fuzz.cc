// SPDX-License-Identifier: Apache-2.0
// Every handshake decoder on arbitrary bytes; what decodes must encode to something that decodes
// again. And both ends of the exchange: packets as they come, what a peer of ill will seals, and
// packets of an honest peer that somebody has changed on their way.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "proto/handshake/client_exchange.h"
#include "proto/handshake/handshake.h"
#include "proto/handshake/query_answer.h"
#include "proto/handshake/server_exchange.h"

namespace {

using farcall::HandshakeType;
using Packet = std::vector<std::byte>;

void Require(bool is_so) {
  if (!is_so) std::abort();
}

// What the server knows, and a client has.
const std::vector<farcall::TokenVerifier>& Known() {
  static const auto* known =
      new std::vector<farcall::TokenVerifier>{farcall::TokenKeys("a-token").verifier()};
  return *known;
}

template <typename T>
void RoundTrip(const farcall::Result<T>& decoded,
               farcall::Result<T> (*decode)(std::span<const std::byte>)) {
  if (!decoded.ok()) return;
  std::vector<std::byte> encoded = farcall::Encode(*decoded);
  farcall::Result<T> again = decode(encoded);
  if (!again.ok() || farcall::Encode(*again) != encoded) std::abort();
}

// A HELLO whose sealed part is `plain`, and `plain` as a packet.
void SayHello(std::span<const std::byte> plain) {
  const farcall::ServerExchange server(false, "9");
  const farcall::ExchangeKey key;
  farcall::KeyShare share;
  std::memcpy(share.data(), server.greeting().data() + sizeof(farcall::HandshakeHeader) + 48, 32);
  std::vector<std::byte> room(sizeof(farcall::KeyShare) + plain.size() + farcall::kSealBytes);
  std::memcpy(room.data(), key.share().data(), key.share().size());
  auto packet = farcall::MakePacket(farcall::HandshakeType::kHello, room);
  if (!packet.ok()) return;
  auto open = std::span(*packet).first(farcall::kHelloOpenBytes);
  auto seal = farcall::HelloSealKey(server.greeting(), key.share(), *key.SharedWith(share));
  std::vector<std::byte> sealed = farcall::Seal(seal, plain, open);
  std::memcpy(packet->data() + farcall::kHelloOpenBytes, sealed.data(), sealed.size());
  farcall::Result<farcall::ReceivedHello> heard = server.Receive(*packet);
  // No input has that token, or that session's key.
  Require(!heard.ok() || (!heard->AcceptToken({}) && !heard->AcceptToken(Known()) &&
                          !heard->AcceptSession(farcall::SessionKey())));
  (void)server.Receive(plain);
}

void Answer(std::span<const std::byte> bytes) {
  (void)farcall::ClientExchange::Answer(bytes, {}, {});
  const farcall::ServerExchange server(false, "9");
  auto client = farcall::ClientExchange::Answer(server.greeting(), {}, {});
  if (client->Open(bytes).ok()) std::abort();  // nobody sealed it
  auto heard = server.Receive(client->hello());
  for (HandshakeType type : {HandshakeType::kWelcome, HandshakeType::kRedirect}) {
    auto packet = farcall::SealAnswer(heard->AcceptAnyone().answer, type, bytes);
    auto opened = packet.ok() ? client->Open(*packet) : packet;
    if (!opened.ok()) continue;
    Require(std::equal(opened->begin(), opened->end(), bytes.begin(), bytes.end()));
    if (type == HandshakeType::kWelcome)
      RoundTrip(farcall::DecodeWelcome(*opened), farcall::DecodeWelcome);
    else
      RoundTrip(farcall::DecodeRedirect(*opened), farcall::DecodeRedirect);
  }
}

// {u16 position, bytes}: those bits of the packet turn round.
Packet Changed(const Packet& packet, std::span<const std::byte> change) {
  Packet changed = packet;
  uint16_t position = 0;
  std::memcpy(&position, change.data(), sizeof(position));
  for (size_t i = 2; i < change.size(); ++i) changed[(position + i) % changed.size()] ^= change[i];
  return changed;
}

// One of the packets of an honest handshake comes changed: whoever gets it takes it only if it is
// as it was.
void Change(uint8_t which, std::span<const std::byte> change) {
  if (change.size() < 2) return;
  auto credentials = farcall::ClientCredentials::OfToken("a-token");
  credentials.session = farcall::SessionKey();
  const farcall::ServerExchange server(true, "9");
  const Packet greeting = which == 0 ? Changed(server.greeting(), change) : server.greeting();
  auto client = farcall::ClientExchange::Answer(greeting, {}, credentials);
  if (!client.ok()) return;
  const Packet hello = which == 1 ? Changed(client->hello(), change) : client->hello();
  auto heard = server.Receive(hello);
  const bool is_whole = greeting == server.greeting() && hello == client->hello();
  Require(heard.ok() == is_whole);
  if (!is_whole) return;
  auto accepted = heard->AcceptToken(Known());
  Require(accepted.has_value() && heard->AcceptSession(farcall::SessionKey()).has_value());
  farcall::Redirect redirect;
  redirect.endpoints = {"tcp://gpu:7717"};
  auto answer = farcall::SealAnswer(accepted->keys.answer, HandshakeType::kRedirect,
                                    farcall::Encode(redirect));
  const Packet sent = which == 2 ? Changed(*answer, change) : *answer;
  Require(client->Open(sent).ok() == (sent == *answer));
}

// The first bytes of a packet, to either side.
void Measure(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(farcall::HandshakeHeader)) return;
  auto header = bytes.first<sizeof(farcall::HandshakeHeader)>();
  auto to_server = farcall::HelloPacketBytes(header);
  Require(!to_server.ok() || *to_server <= header.size() + farcall::kMaxHelloBytes);
  auto to_client = farcall::PacketBytes(header,
                                        {HandshakeType::kGreeting, HandshakeType::kWelcome,
                                         HandshakeType::kRedirect, HandshakeType::kRefuse},
                                        "server", "client");
  Require(!to_client.ok() || *to_client <= header.size() + farcall::kMaxWelcomeBytes);
  Require(!to_server.ok() || !to_client.ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 12) {
    case 0:
      RoundTrip(farcall::DecodeGreeting(body), farcall::DecodeGreeting);
      break;
    case 1:
      RoundTrip(farcall::DecodeHello(body), farcall::DecodeHello);
      break;
    case 2:
      RoundTrip(farcall::DecodeWelcome(body), farcall::DecodeWelcome);
      RoundTrip(farcall::DecodeQueryAnswer(body), farcall::DecodeQueryAnswer);
      break;
    case 3:
      RoundTrip(farcall::DecodeRefuse(body), farcall::DecodeRefuse);
      break;
    case 4:
      SayHello(body);
      break;
    case 5:
      Answer(body);
      break;
    case 6:
      (void)farcall::ParseVerifier({reinterpret_cast<const char*>(body.data()), body.size()});
      break;
    case 7:
      RoundTrip(farcall::DecodeRedirect(body), farcall::DecodeRedirect);
      break;
    case 8:
      Measure(body);
      break;
    default:
      Change(data[0] % 12 - 9, body);
      break;
  }
  return 0;
}
