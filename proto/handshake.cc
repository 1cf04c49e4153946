// SPDX-License-Identifier: Apache-2.0
// Handshake bodies. Each message has one Walk() that names its fields in wire order; encoding and
// decoding run the same walk, so they cannot drift apart.
#include "proto/handshake.h"

#include "proto/codec.h"
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

class Out {
 public:
  template <WireScalar T>
  void Scalar(const T& value) {
    builder_.Put(value);
  }
  template <WireScalar T>
  void Appended(const T& value) {
    Scalar(value);
  }
  void AppendedText(const std::string& value, size_t max_bytes) { Text(value, max_bytes); }
  template <WireScalar T>
  void AppendedScalars(const std::vector<T>& value, size_t max_count) {
    Scalars(value, max_count);
  }
  void Flag(const bool& value) { builder_.Put<uint8_t>(value ? 1 : 0); }
  void Text(const std::string& value, size_t) { builder_.PutString(value); }
  template <size_t kBytes>
  void Array(const std::array<uint8_t, kBytes>& value) {
    builder_.PutBytes(value.data(), kBytes);
  }
  template <WireScalar T>
  void Scalars(const std::vector<T>& value, size_t) {
    builder_.PutBytes(value.data(), value.size() * sizeof(T));
  }
  template <typename T, typename WalkItem>
  void List(const std::vector<T>& value, size_t, WalkItem walk) {
    builder_.Put<uint64_t>(value.size());
    for (const T& item : value) {
      walk(*this, item);
    }
  }
  std::vector<std::byte> Take() { return std::move(builder_.mutable_bytes()); }

 private:
  Builder builder_;
};

class In {
 public:
  explicit In(std::span<const std::byte> body) : reader_(body) {}
  template <WireScalar T>
  void Scalar(T& value) {
    value = reader_.Get<T>();
  }
  // A field that an older minor does not send.
  template <WireScalar T>
  void Appended(T& value) {
    if (reader_.ok() && reader_.remaining_bytes() >= sizeof(T)) {
      Scalar(value);
    }
  }
  void AppendedText(std::string& value, size_t max_bytes) {
    if (reader_.ok() && reader_.remaining_bytes() != 0) {
      Text(value, max_bytes);
    }
  }
  template <WireScalar T>
  void AppendedScalars(std::vector<T>& value, size_t max_count) {
    if (reader_.ok() && reader_.remaining_bytes() >= sizeof(uint64_t)) {  // of its count
      Scalars(value, max_count);
    }
  }
  void Flag(bool& value) { value = reader_.Get<uint8_t>() != 0; }
  void Text(std::string& value, size_t max_bytes) {
    std::string_view text = reader_.GetString();
    if (text.size() > max_bytes) {
      return reader_.Fail();
    }
    value = text;
  }
  template <size_t kBytes>
  void Array(std::array<uint8_t, kBytes>& value) {
    std::span<const std::byte> bytes = reader_.GetBytes();
    if (bytes.size() != kBytes) {
      return reader_.Fail();
    }
    std::memcpy(value.data(), bytes.data(), kBytes);
  }
  template <WireScalar T>
  void Scalars(std::vector<T>& value, size_t max_count) {
    std::span<const std::byte> bytes = reader_.GetBytes();
    if (bytes.size() % sizeof(T) != 0 || bytes.size() / sizeof(T) > max_count) {
      return reader_.Fail();
    }
    value.resize(bytes.size() / sizeof(T));
    if (!value.empty()) {
      std::memcpy(value.data(), bytes.data(), bytes.size());
    }
  }
  template <typename T, typename WalkItem>
  void List(std::vector<T>& value, size_t max_count, WalkItem walk) {
    size_t count = reader_.GetCount(8);
    if (count > max_count) {
      return reader_.Fail();
    }
    value.resize(count);
    for (T& item : value) {
      if (!reader_.ok()) {
        return;
      }
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
  io.Flag(value.needs_token);
  io.Text(value.server_version, kMaxNameBytes);
}

template <typename Io, typename T>
void WalkHello(Io& io, T& value) {
  io.Scalar(value.role);
  io.Scalar(value.lane);
  io.Array(value.session);
  io.Scalar(value.received_seq);
  io.Scalar(value.received_chunks);
  io.Array(value.nonce);
  io.Array(value.proof);
  io.Text(value.vgpu, kMaxNameBytes);
  io.Scalar(value.quota.memory_bytes);
  io.Scalar(value.quota.share_milli);
  io.Scalar(value.quota.limit_milli);
  io.Scalar(value.quota.priority);
  io.Scalar(value.pid);
  io.Text(value.user, kMaxNameBytes);
  io.Text(value.host, kMaxNameBytes);
  io.Text(value.program, kMaxPathBytes);
  io.Text(value.client_version, kMaxNameBytes);
  io.List(value.environment, kMaxVariables, WalkVariable);
  io.List(value.device_windows, kMaxWindows, WalkWindow);
  io.List(value.host_windows, kMaxWindows, WalkWindow);
  io.Scalar(value.shim_driver_version);
  io.Appended(value.features);
  io.Appended(value.devices);
  io.AppendedText(value.claim, kMaxNameBytes);
  io.AppendedText(value.lease, kMaxLeaseTextBytes);
  io.Appended(value.quota.net_bytes_per_s);
}

template <typename Io, typename T>
void WalkWelcome(Io& io, T& value) {
  io.Array(value.session);
  io.Array(value.key);
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
  io.Appended(value.features);
  io.AppendedScalars(value.libraries, kMaxLibraries);
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
  if (!in.ok()) {
    return Malformed("GREETING", body.size());
  }
  return value;
}

Result<Hello> DecodeHello(std::span<const std::byte> body) {
  Hello value;
  In in(body);
  WalkHello(in, value);
  if (value.role != LinkRole::kLog && value.role != LinkRole::kLane) {
    in.Fail();
  }
  if (!in.ok()) {
    return Malformed("HELLO", body.size());
  }
  return value;
}

Result<Welcome> DecodeWelcome(std::span<const std::byte> body) {
  Welcome value;
  In in(body);
  WalkWelcome(in, value);
  if (!in.ok()) {
    return Malformed("WELCOME", body.size());
  }
  return value;
}

Result<Refuse> DecodeRefuse(std::span<const std::byte> body) {
  Refuse value;
  In in(body);
  WalkRefuse(in, value);
  if (value.code == Code::kOk || value.code > Code::kInternal) {
    in.Fail();
  }
  if (!in.ok()) {
    return Malformed("REFUSE", body.size());
  }
  value.message = Printable(value.message, kMaxRefusalBytes);
  return value;
}

Result<Redirect> DecodeRedirect(std::span<const std::byte> body) {
  Redirect value;
  In in(body);
  WalkRedirect(in, value);
  if (value.endpoints.empty()) {
    in.Fail();
  }
  if (!in.ok()) {
    return Malformed("REDIRECT", body.size());
  }
  return value;
}

}  // namespace farcall
