// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace farcall {

std::vector<std::byte> Encode(const UcxHello& hello) {
  UcxHelloHeader header;
  header.release = hello.release;
  header.window_bytes = hello.window_bytes;
  header.address_bytes = static_cast<uint32_t>(hello.address.size());
  header.key = hello.key;
  std::vector<std::byte> packet(sizeof(header) + hello.address.size());
  std::memcpy(packet.data(), &header, sizeof(header));
  std::copy(hello.address.begin(), hello.address.end(), packet.begin() + sizeof(header));
  return packet;
}

Result<size_t> UcxHelloBytes(const UcxHelloHeader& header) {
  if (header.magic != kUcxMagic)
    return Status(Code::kMalformed, "ucx: the peer sends something else than its address");
  if (header.version != kUcxVersion) {
    return Status(Code::kUnsupported, "ucx: the peer speaks version " +
                                          std::to_string(header.version) + ", this side " +
                                          std::to_string(kUcxVersion));
  }
  if (header.address_bytes == 0 || header.address_bytes > kMaxUcxAddressBytes) {
    return Status(Code::kMalformed,
                  "ucx: the peer's address has " + std::to_string(header.address_bytes) +
                      " bytes, right are 1 to " + std::to_string(kMaxUcxAddressBytes));
  }
  const uint32_t window = header.window_bytes;
  if (window < kMinUcxWindowBytes || window > kMaxUcxWindowBytes || !std::has_single_bit(window)) {
    return Status(Code::kMalformed, "ucx: the peer takes " + std::to_string(window) +
                                        " bytes ahead; a power of two from " +
                                        std::to_string(kMinUcxWindowBytes) + " to " +
                                        std::to_string(kMaxUcxWindowBytes) + " is right");
  }
  return sizeof(header) + header.address_bytes;
}

Result<UcxHello> DecodeUcxHello(std::span<const std::byte> packet) {
  UcxHelloHeader header;
  if (packet.size() < sizeof(header))
    return Status(Code::kMalformed, "ucx: the peer's address is cut short");
  std::memcpy(&header, packet.data(), sizeof(header));
  Result<size_t> bytes = UcxHelloBytes(header);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != packet.size())
    return Status(Code::kMalformed, "ucx: the peer's address is cut short");
  const auto body = packet.subspan(sizeof(header));
  UcxHello hello;
  hello.release = header.release;
  hello.window_bytes = header.window_bytes;
  hello.key = header.key;
  hello.address.assign(body.begin(), body.end());
  return hello;
}

}  // namespace farcall
