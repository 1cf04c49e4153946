// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace farcall {
namespace {

constexpr size_t kMaxGreetingBytes = 4u << 10;
constexpr size_t kMaxRefuseBytes = 16u << 10;
constexpr size_t kMaxRedirectBytes = 16u << 10;

// Variables that change what libcuda or a math library computes or how; nothing that names a file
// or a program.
constexpr std::array<std::string_view, 9> kForwarded = {
    "CUBLAS_WORKSPACE_CONFIG",     "CUDA_AUTO_BOOST",
    "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_MAX_COPY_CONNECTIONS",
    "CUDA_DISABLE_PTX_JIT",        "CUDA_FORCE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING",        "CUDA_MODULE_LOADING",
    "NVIDIA_TF32_OVERRIDE"};

struct Packet {
  HandshakeHeader header;
  std::vector<std::byte> body;
};

size_t MaxBodyBytes(HandshakeType type) {
  switch (type) {
    case HandshakeType::kGreeting:
      return kMaxGreetingBytes;
    case HandshakeType::kHello:
      return kMaxHelloBytes;
    case HandshakeType::kWelcome:
      return kMaxWelcomeBytes;
    case HandshakeType::kRefuse:
      return kMaxRefuseBytes;
    case HandshakeType::kRedirect:
      return kMaxRedirectBytes;
  }
  return 0;
}

Status Send(Channel& channel, HandshakeType type, std::span<const std::byte> body,
            Clock::time_point deadline) {
  if (body.size() > MaxBodyBytes(type)) {
    return {Code::kInternal, "handshake: a body of " + std::to_string(body.size()) +
                                 " bytes, at most " + std::to_string(MaxBodyBytes(type)) +
                                 " may be sent"};
  }
  HandshakeHeader header;
  header.bytes = static_cast<uint32_t>(body.size());
  header.type = static_cast<uint16_t>(type);
  std::vector<std::byte> packet(sizeof(header) + body.size());
  std::memcpy(packet.data(), &header, sizeof(header));
  if (!body.empty()) {
    std::memcpy(packet.data() + sizeof(header), body.data(), body.size());
  }
  return SendAll(channel, packet, deadline);
}

std::string WireName(uint16_t major, uint16_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

// Reads one packet of one of the `expected` types. `peer` and `self` are "server" and "client" or
// the reverse.
Result<Packet> Read(Channel& channel, std::initializer_list<HandshakeType> expected,
                    const char* peer, const char* self, Clock::time_point deadline) {
  Packet packet;
  HandshakeHeader& header = packet.header;
  FARCALL_TRY(ReceiveAll(channel, std::as_writable_bytes(std::span(&header, 1)), deadline));
  if (header.magic != kHandshakeMagic) {
    return Status(Code::kMalformed, channel.PeerName() + ": no Farcall " + peer +
                                        " there (its first bytes are not a handshake's)");
  }
  if (header.major != kWireMajor) {
    return Status(Code::kUnsupported, std::string(peer) + " speaks wire " +
                                          WireName(header.major, header.minor) + ", this " + self +
                                          " " + WireName(kWireMajor, kWireMinor) +
                                          ": install the same release on both sides");
  }
  auto type = static_cast<HandshakeType>(header.type);
  if (std::find(expected.begin(), expected.end(), type) == expected.end()) {
    return Status(Code::kMalformed, channel.PeerName() + ": handshake message of type " +
                                        std::to_string(header.type) + " out of turn");
  }
  if (header.bytes > MaxBodyBytes(type)) {
    return Status(Code::kMalformed, channel.PeerName() + ": handshake message of " +
                                        std::to_string(header.bytes) + " bytes, at most " +
                                        std::to_string(MaxBodyBytes(type)) + " are allowed");
  }
  packet.body.resize(header.bytes);
  FARCALL_TRY(ReceiveAll(channel, packet.body, deadline));
  return packet;
}

}  // namespace

Status SendGreeting(Channel& channel, const Greeting& greeting, Clock::time_point deadline) {
  return Send(channel, HandshakeType::kGreeting, Encode(greeting), deadline);
}

Result<Hello> ReadHello(Channel& channel, Clock::time_point deadline) {
  Result<Packet> packet = Read(channel, {HandshakeType::kHello}, "client", "server", deadline);
  if (!packet.ok()) {
    return packet.status();
  }
  return DecodeHello(packet->body);
}

Status SendWelcome(Channel& channel, const Welcome& welcome, Clock::time_point deadline) {
  return Send(channel, HandshakeType::kWelcome, Encode(welcome), deadline);
}

Status SendRefuse(Channel& channel, const Refuse& refuse, Clock::time_point deadline) {
  Refuse sent = refuse;
  if (sent.code == Code::kOk) {
    sent.code = Code::kRefused;
  }
  sent.message.resize(std::min<size_t>(sent.message.size(), kMaxRefuseBytes / 2));
  return Send(channel, HandshakeType::kRefuse, Encode(sent), deadline);
}

Status SendRedirect(Channel& channel, const Redirect& redirect, Clock::time_point deadline) {
  return Send(channel, HandshakeType::kRedirect, Encode(redirect), deadline);
}

namespace {

// The client's side up to the answer, which is of type `wanted` or a refusal.
Result<Packet> Converse(Channel& channel, Hello hello, std::span<const uint8_t> key,
                        HandshakeType wanted, Clock::time_point deadline) {
  Result<Packet> first = Read(channel, {HandshakeType::kGreeting, HandshakeType::kRefuse}, "server",
                              "client", deadline);
  if (!first.ok()) {
    return first.status();
  }
  if (first->header.type == static_cast<uint16_t>(HandshakeType::kGreeting)) {
    Result<Greeting> greeting = DecodeGreeting(first->body);
    if (!greeting.ok()) {
      return greeting.status();
    }
    if (greeting->needs_token && key.empty()) {
      return Status(Code::kRefused,
                    channel.PeerName() +
                        ": the server wants a token; set FARCALL_TOKEN or FARCALL_TOKEN_FILE");
    }
    RandomBytes(hello.nonce);
    hello.proof.fill(0);
    if (!key.empty()) {
      hello.proof = HelloProof(key, greeting->nonce, hello);
    }
    FARCALL_TRY(Send(channel, HandshakeType::kHello, Encode(hello), deadline));
    first = Read(channel, {wanted, HandshakeType::kRefuse}, "server", "client", deadline);
    if (!first.ok()) {
      return first.status();
    }
  }
  if (first->header.type == static_cast<uint16_t>(wanted)) {
    return first;
  }
  Result<Refuse> refuse = DecodeRefuse(first->body);
  if (!refuse.ok()) {
    return refuse.status();
  }
  return Status(refuse->code, refuse->message);
}

}  // namespace

Result<Welcome> ClientHandshake(Channel& channel, Hello hello, std::span<const uint8_t> key,
                                Clock::time_point deadline) {
  Result<Packet> answer =
      Converse(channel, std::move(hello), key, HandshakeType::kWelcome, deadline);
  if (!answer.ok()) {
    return answer.status();
  }
  return DecodeWelcome(answer->body);
}

Result<Redirect> PoolHandshake(Channel& channel, Hello hello, std::span<const uint8_t> key,
                               Clock::time_point deadline) {
  Result<Packet> answer =
      Converse(channel, std::move(hello), key, HandshakeType::kRedirect, deadline);
  if (!answer.ok()) {
    return answer.status();
  }
  return DecodeRedirect(answer->body);
}

bool IsForwardedVariable(std::string_view name) {
  return std::find(kForwarded.begin(), kForwarded.end(), name) != kForwarded.end();
}

std::span<const std::string_view> ForwardedVariables() {
  return kForwarded;
}

}  // namespace farcall
