// SPDX-License-Identifier: Apache-2.0
// What both ends of a ucx:// connection say first, on the socket that has carried the handshake:
// where their UCX worker is. docs/reference/wire.md has the layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/status.h"

namespace farcall {

inline constexpr uint32_t kUcxMagic = 0x55584346;  // "FCXU"
inline constexpr uint16_t kUcxVersion = 1;
inline constexpr size_t kMaxUcxAddressBytes = 16u << 10;
// Of a stream's bytes that are on their way. Powers of two.
inline constexpr size_t kMinUcxWindowBytes = 64u << 10, kMaxUcxWindowBytes = 16u << 20;

// Stands in every message. UCX listens for whoever comes: only the peer knows it.
using UcxKey = std::array<uint8_t, 16>;

struct UcxHello {
  uint16_t release = 0;       // of UCX: 256 * major + minor. Others speak another language
  uint32_t window_bytes = 0;  // that this end takes before it has said that it has read some
  UcxKey key{};               // that messages to this end carry
  std::vector<std::byte> address;
};

struct UcxHelloHeader {
  uint32_t magic = kUcxMagic;
  uint16_t version = kUcxVersion;
  uint16_t release = 0;
  uint32_t window_bytes = 0;
  uint32_t address_bytes = 0;
  UcxKey key{};
};
static_assert(sizeof(UcxHelloHeader) == 32);

// What stands before a message's bytes, and all of a credit.
struct UcxMessageHeader {
  UcxKey key{};
  uint64_t position = 0;  // of the stream: where the bytes belong; a credit: how many were read
};
static_assert(sizeof(UcxMessageHeader) == 24);

std::vector<std::byte> Encode(const UcxHello& hello);
// How long the packet is that begins so.   Errors  kMalformed, kUnsupported (another version)
Result<size_t> UcxHelloBytes(const UcxHelloHeader& header);
// A whole packet.   Errors  kMalformed
Result<UcxHello> DecodeUcxHello(std::span<const std::byte> packet);

}  // namespace farcall
