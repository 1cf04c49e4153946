// SPDX-License-Identifier: Apache-2.0
// Every handshake decoder on arbitrary bytes; what decodes must encode to something that decodes
// again. And both ends of the exchange: packets as they come, and what a peer of ill will seals.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "proto/client_exchange.h"
#include "proto/handshake.h"
#include "proto/server_exchange.h"

namespace {

template <typename T>
void RoundTrip(const farcall::Result<T>& decoded,
               farcall::Result<T> (*decode)(std::span<const std::byte>)) {
  if (!decoded.ok()) {
    return;
  }
  std::vector<std::byte> encoded = farcall::Encode(*decoded);
  farcall::Result<T> again = decode(encoded);
  if (!again.ok() || farcall::Encode(*again) != encoded) {
    std::abort();
  }
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
  if (!packet.ok()) {
    return;
  }
  auto open = std::span(*packet).first(farcall::kHelloOpenBytes);
  auto seal = farcall::HelloSealKey(server.greeting(), key.share(), *key.SharedWith(share));
  std::vector<std::byte> sealed = farcall::Seal(seal, plain, open);
  std::memcpy(packet->data() + farcall::kHelloOpenBytes, sealed.data(), sealed.size());
  farcall::Result<farcall::HeardHello> heard = server.Hear(*packet);
  if (heard.ok() &&
      (heard->AcceptToken({}) || heard->AcceptSession(farcall::SessionKey()).has_value())) {
    std::abort();  // no input has that session's key
  }
  (void)server.Hear(plain);
}

void Answer(std::span<const std::byte> bytes) {
  (void)farcall::ClientExchange::Answer(bytes, {}, {});
  const farcall::ServerExchange server(false, "9");
  auto client = farcall::ClientExchange::Answer(server.greeting(), {}, {});
  if (client->Open(bytes).ok()) {
    std::abort();  // nobody sealed it
  }
  auto heard = server.Hear(client->hello());
  auto packet =
      farcall::SealAnswer(heard->AcceptAnyone().answer, farcall::HandshakeType::kWelcome, bytes);
  if (packet.ok() && client->Open(*packet).ok()) {
    RoundTrip(farcall::DecodeWelcome(bytes), farcall::DecodeWelcome);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  std::span<const std::byte> body(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  switch (data[0] % 8) {
    case 0:
      RoundTrip(farcall::DecodeGreeting(body), farcall::DecodeGreeting);
      break;
    case 1:
      RoundTrip(farcall::DecodeHello(body), farcall::DecodeHello);
      break;
    case 2:
      RoundTrip(farcall::DecodeWelcome(body), farcall::DecodeWelcome);
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
    default:
      RoundTrip(farcall::DecodeRedirect(body), farcall::DecodeRedirect);
      break;
  }
  return 0;
}
