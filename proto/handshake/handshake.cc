// SPDX-License-Identifier: Apache-2.0
// Handshake bodies. Each message has one Walk() that names its fields in wire order; encoding and
// decoding run the same walk, so they cannot drift apart.
#include "proto/handshake/handshake.h"

#include <algorithm>
#include <cstring>

#include "proto/codec.h"
#include "proto/handshake/session_features.h"
#include "proto/printable.h"

namespace farcall {
namespace {

// Bounds that no honest peer reaches; they cap what one message can make the other side hold.
constexpr size_t kMaxVariables = 64;
constexpr size_t kMaxWindows = 64;
constexpr size_t kMaxDevices = 256;
constexpr size_t kMaxEndpoints = 16;
constexpr size_t kMaxAttributes = 1024;
constexpr size_t kMaxCallBytes = 8192;  // of a bitmap
constexpr size_t kMaxKnownImages = 65536;
constexpr size_t kMaxLibraries = 1024;
constexpr size_t kMaxCredentialId = 64;
constexpr size_t kMaxGreetingBytes = 1u << 10;
constexpr size_t kMaxRefuseBytes = 16u << 10;
constexpr size_t kMaxRedirectBytes = 128u << 10;

class Out {
 public:
  template <WireScalar T>
  void Scalar(const T& value) {
    builder_.Put(value);
  }
  void Flag(const bool& value) { builder_.Put<uint8_t>(value ? 1 : 0); }
  void Text(const std::string& value, size_t max_bytes) {
    Note(value.size(), max_bytes);
    builder_.PutString(value);
  }
  template <size_t kBytes>
  void Array(const std::array<uint8_t, kBytes>& value) {
    builder_.PutBytes(value.data(), kBytes);
  }
  template <WireScalar T>
  void Scalars(const std::vector<T>& value, size_t max_count) {
    Note(value.size(), max_count);
    builder_.PutBytes(value.data(), value.size() * sizeof(T));
  }
  template <typename T, typename WalkItem>
  void List(const std::vector<T>& value, size_t max_count, WalkItem walk) {
    Note(value.size(), max_count);
    builder_.Put<uint64_t>(value.size());
    for (const T& item : value) walk(*this, item);
  }
  std::vector<std::byte> Take() { return std::move(builder_.mutable_bytes()); }
  // The first field beyond its bound: how much it has, and may have. 0: none.
  size_t excess() const { return excess_; }
  size_t bound() const { return bound_; }

 private:
  void Note(size_t size, size_t max_size) {
    if (size > max_size && excess_ == 0) {
      excess_ = size;
      bound_ = max_size;
    }
  }

  Builder builder_;
  size_t excess_ = 0, bound_ = 0;
};

class In {
 public:
  explicit In(std::span<const std::byte> body) : reader_(body) {}
  template <WireScalar T>
  void Scalar(T& value) {
    value = reader_.Get<T>();
  }
  void Flag(bool& value) { value = reader_.Get<uint8_t>() != 0; }
  void Text(std::string& value, size_t max_bytes) {
    std::string_view text = reader_.GetString();
    if (text.size() > max_bytes) return reader_.Fail();
    value = text;
  }
  template <size_t kBytes>
  void Array(std::array<uint8_t, kBytes>& value) {
    std::span<const std::byte> bytes = reader_.GetBytes();
    if (bytes.size() != kBytes) return reader_.Fail();
    std::memcpy(value.data(), bytes.data(), kBytes);
  }
  template <WireScalar T>
  void Scalars(std::vector<T>& value, size_t max_count) {
    std::span<const std::byte> bytes = reader_.GetBytes();
    if (bytes.size() % sizeof(T) != 0 || bytes.size() / sizeof(T) > max_count)
      return reader_.Fail();
    value.resize(bytes.size() / sizeof(T));
    if (!value.empty()) std::memcpy(value.data(), bytes.data(), bytes.size());
  }
  template <typename T, typename WalkItem>
  void List(std::vector<T>& value, size_t max_count, WalkItem walk) {
    size_t count = reader_.GetCount(8);
    if (count > max_count) return reader_.Fail();
    value.resize(count);
    for (T& item : value) {
      if (!reader_.ok()) return;
      walk(*this, item);
    }
  }
  void Fail() { reader_.Fail(); }
  bool ok() const { return reader_.ok(); }
  bool Done() const { return reader_.Done(); }

 private:
  Reader reader_;
};

auto WalkWindow = [](auto& io, auto& window) {
  io.Scalar(window.base);
  io.Scalar(window.bytes);
};
auto WalkVariable = [](auto& io, auto& variable) {
  io.Text(variable.first, kMaxNameBytes);
  io.Text(variable.second, kMaxVariableBytes);
};
auto WalkCredential = [](auto& io, auto& credential) {
  io.Scalar(credential.kind);
  io.Scalars(credential.id, kMaxCredentialId);
};
auto WalkDevice = [](auto& io, auto& device) {
  io.Text(device.name, kMaxNameBytes);
  io.Array(device.uuid);
  io.Scalar(device.total_bytes);
  io.Text(device.pci_bus_id, kMaxNameBytes);
  io.Scalars(device.attributes, kMaxAttributes);
  io.Scalars(device.limits, kMaxAttributes);
  io.Scalar(device.least_priority);
  io.Scalar(device.greatest_priority);
  io.Scalar(device.granularity_bytes);
  io.Flag(device.has_vmm);
  io.Scalars(device.peer_access, kMaxDevices);
};

template <typename Io, typename T>
void WalkGreeting(Io& io, T& value) {
  io.Array(value.nonce);
  io.Array(value.share);
  io.Flag(value.needs_token);
  io.Scalar(value.features);
  io.Scalar(value.transports);
  io.Text(value.server_version, kMaxNameBytes);
}

template <typename Io, typename T>
void WalkHello(Io& io, T& value) {
  io.Scalar(value.role);
  io.Scalar(value.lane);
  io.Array(value.session);
  io.Scalar(value.received_seq);
  io.Scalar(value.received_chunks);
  io.List(value.credentials, kMaxCredentials, WalkCredential);
  io.Scalar(value.transports);
  io.Text(value.vgpu, kMaxNameBytes);
  io.Scalar(value.quota.memory_bytes);
  io.Scalar(value.quota.share_milli);
  io.Scalar(value.quota.limit_milli);
  io.Scalar(value.quota.priority);
  io.Scalar(value.quota.net_bytes_per_s);
  io.Scalar(value.pid);
  io.Text(value.user, kMaxNameBytes);
  io.Text(value.host, kMaxNameBytes);
  io.Text(value.program, kMaxPathBytes);
  io.Text(value.client_version, kMaxNameBytes);
  io.List(value.environment, kMaxVariables, WalkVariable);
  io.List(value.device_windows, kMaxWindows, WalkWindow);
  io.List(value.host_windows, kMaxWindows, WalkWindow);
  io.Scalar(value.shim_driver_version);
  io.Scalar(value.features);
  io.Scalar(value.devices);
  io.Text(value.claim, kMaxNameBytes);
  io.Text(value.lease, kMaxLeaseTextBytes);
}

template <typename Io, typename T>
void WalkWelcome(Io& io, T& value) {
  io.Array(value.session);
  io.Scalar(value.received_seq);
  io.Scalar(value.received_chunks);
  io.Scalar(value.device_window);
  io.Scalar(value.host_window);
  io.Scalar(value.driver_version);
  io.Scalar(value.lanes);
  io.Scalar(value.grace_ms);
  io.Scalar(value.heartbeat_ms);
  io.Text(value.server_version, kMaxNameBytes);
  io.Text(value.server_host, kMaxNameBytes);
  io.Text(value.device_kind, kMaxNameBytes);
  io.Scalars(value.supported_calls, kMaxCallBytes);
  io.Scalars(value.known_images, kMaxKnownImages);
  io.List(value.devices, kMaxDevices, WalkDevice);
  io.Scalar(value.features);
  io.Scalar(value.transport);
  io.Scalars(value.libraries, kMaxLibraries);
  if (HasFeature(value, SessionFeature::kFirstCredit)) WalkWindow(io, value.first_credit);
  if (HasFeature(value, SessionFeature::kSharedMemory)) io.Text(value.shm_path, kMaxPathBytes);
}

template <typename Io, typename T>
void WalkRefuse(Io& io, T& value) {
  io.Scalar(value.code);
  io.Text(value.message, kMaxRefusalBytes);
}

template <typename Io, typename T>
void WalkRedirect(Io& io, T& value) {
  io.List(value.endpoints, kMaxEndpoints,
          [](auto& inner, auto& url) { inner.Text(url, kMaxPathBytes); });
  io.Text(value.lease, kMaxLeaseTextBytes);
  io.Text(value.claim, kMaxNameBytes);
}

Status Malformed(const char* what, size_t bytes) {
  return {Code::kMalformed, std::string("handshake: ") + what + " of " + std::to_string(bytes) +
                                " bytes cannot be read"};
}

}  // namespace

std::vector<std::byte> Encode(const Greeting& value) {
  Out out;
  WalkGreeting(out, value);
  return out.Take();
}
std::vector<std::byte> Encode(const Hello& value) {
  Out out;
  WalkHello(out, value);
  return out.Take();
}
std::vector<std::byte> Encode(const Welcome& value) {
  Out out;
  WalkWelcome(out, value);
  return out.Take();
}
std::vector<std::byte> Encode(const Refuse& value) {
  Out out;
  Refuse cut{value.code, value.message.substr(0, kMaxRefusalBytes)};
  WalkRefuse(out, cut);
  return out.Take();
}
std::vector<std::byte> Encode(const Redirect& value) {
  Out out;
  WalkRedirect(out, value);
  return out.Take();
}

// A newer minor may append fields: what is left over after the last known one is passed over, not
// refused.
Result<Greeting> DecodeGreeting(std::span<const std::byte> body) {
  Greeting value;
  In in(body);
  WalkGreeting(in, value);
  if (!in.ok()) return Malformed("GREETING", body.size());
  return value;
}

Result<Hello> DecodeHello(std::span<const std::byte> body) {
  Hello value;
  In in(body);
  WalkHello(in, value);
  if (value.role != LinkRole::kLog && value.role != LinkRole::kLane) in.Fail();
  if (!in.ok()) return Malformed("HELLO", body.size());
  return value;
}

Result<Welcome> DecodeWelcome(std::span<const std::byte> body) {
  Welcome value;
  In in(body);
  WalkWelcome(in, value);
  if (value.lanes > kMaxLanes) in.Fail();
  if (!in.ok()) return Malformed("WELCOME", body.size());
  return value;
}

Result<Refuse> DecodeRefuse(std::span<const std::byte> body) {
  Refuse value;
  In in(body);
  WalkRefuse(in, value);
  if (value.code == Code::kOk || value.code > Code::kInternal) in.Fail();
  if (!in.ok()) return Malformed("REFUSE", body.size());
  value.message = Printable(value.message, kMaxRefusalBytes);
  return value;
}

Result<Redirect> DecodeRedirect(std::span<const std::byte> body) {
  Redirect value;
  In in(body);
  WalkRedirect(in, value);
  if (value.endpoints.empty()) in.Fail();
  if (!in.ok()) return Malformed("REDIRECT", body.size());
  return value;
}

Status CheckHello(const Hello& hello) {
  Out out;
  WalkHello(out, hello);
  if (out.excess() == 0) return {};
  return {Code::kInvalid, "HELLO: a field of " + std::to_string(out.excess()) +
                              " bytes or entries, at most " + std::to_string(out.bound()) +
                              " are taken"};
}

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

Result<size_t> PacketBytes(std::span<const std::byte, sizeof(HandshakeHeader)> bytes,
                           std::initializer_list<HandshakeType> expected, const char* peer,
                           const char* self) {
  HandshakeHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kHandshakeMagic) {
    return Status(Code::kMalformed, std::string("no Farcall ") + peer +
                                        " there (its first bytes are not a handshake's)");
  }
  auto name = [](uint16_t major, uint16_t minor) {
    return std::to_string(major) + "." + std::to_string(minor);
  };
  if (header.major != kWireMajor) {
    return Status(Code::kUnsupported, std::string(peer) + " speaks wire " +
                                          name(header.major, header.minor) + ", this " + self +
                                          " " + name(kWireMajor, kWireMinor) +
                                          ": install the same release on both sides");
  }
  auto type = static_cast<HandshakeType>(header.type);
  if (std::find(expected.begin(), expected.end(), type) == expected.end()) {
    return Status(Code::kMalformed,
                  "handshake message of type " + std::to_string(header.type) + " out of turn");
  }
  if (header.bytes > MaxBodyBytes(type)) {
    return Status(Code::kMalformed, "handshake message of " + std::to_string(header.bytes) +
                                        " bytes, at most " + std::to_string(MaxBodyBytes(type)) +
                                        " are allowed");
  }
  return sizeof(header) + header.bytes;
}

Result<std::vector<std::byte>> MakePacket(HandshakeType type, std::span<const std::byte> body) {
  if (body.size() > MaxBodyBytes(type)) {
    return Status(Code::kInternal, "handshake: a body of " + std::to_string(body.size()) +
                                       " bytes, at most " + std::to_string(MaxBodyBytes(type)) +
                                       " may be sent");
  }
  HandshakeHeader header;
  header.bytes = static_cast<uint32_t>(body.size());
  header.type = static_cast<uint16_t>(type);
  std::vector<std::byte> packet(sizeof(header) + body.size());
  std::memcpy(packet.data(), &header, sizeof(header));
  std::copy(body.begin(), body.end(), packet.begin() + sizeof(header));
  return packet;
}

HandshakeType TypeOf(std::span<const std::byte> packet) {
  HandshakeHeader header{};
  std::memcpy(&header, packet.data(), std::min(packet.size(), sizeof(header)));
  return static_cast<HandshakeType>(header.type);
}

}  // namespace farcall
