// SPDX-License-Identifier: Apache-2.0
// What both ends of a verbs:// connection say first, on the socket that has carried the handshake:
// where their queue pair is, and which memory of theirs the peer may reach. And what stands before
// the bytes of a message. docs/reference/wire.md has the layout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/status.h"

namespace farcall {

inline constexpr uint32_t kVerbsMagic = 0x56424346;  // "FCBV"
inline constexpr uint16_t kVerbsVersion = 1;
// Of a stream's bytes that are on their way. Powers of two.
inline constexpr size_t kMinVerbsWindowBytes = 64u << 10, kMaxVerbsWindowBytes = 16u << 20;
// Of messages that a side takes before it has said that it has taken some.
inline constexpr uint32_t kMinVerbsSlots = 8, kMaxVerbsSlots = 1024;
inline constexpr uint32_t kMaxVerbsSlotBytes = 64u << 10;

// The client offers its rings; the server reads one and writes the other, and offers none.
enum class VerbsRole : uint8_t { kOffers = 1, kReaches = 2 };

struct VerbsMemory {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t reserved = 0;
};

struct VerbsHello {
  uint32_t magic = kVerbsMagic;
  uint16_t version = kVerbsVersion;
  VerbsRole role = VerbsRole::kOffers;
  uint8_t mtu = 0;  // an ibv_mtu
  uint32_t queue_pair = 0;
  uint32_t first_packet = 0;  // 24 bits
  uint16_t lid = 0;
  uint8_t reads = 0;  // that this side answers at once
  uint8_t is_ethernet = 0;
  uint32_t window_bytes = 0;
  uint32_t slots = 0, slot_bytes = 0;
  std::array<uint8_t, 16> gid{};
  VerbsMemory sends;     // the ring that this side sends from, for RDMA READ
  VerbsMemory receives;  // and the one that it receives in, for RDMA WRITE
};
static_assert(sizeof(VerbsHello) == 80);

// What a message is, and what it says beside: how much its sender has read, and how many slots it
// has posted in all.
enum class VerbsKind : uint32_t {
  kData = 1,       // these bytes of the stream follow
  kAnnounced = 2,  // they are in the sender's ring: read them
  kWritten = 3,    // they have been written to the receiver's ring
  kCredit = 4,     // none
};
struct VerbsMessage {
  VerbsKind kind = VerbsKind::kCredit;
  uint32_t bytes = 0;
  uint64_t position = 0;  // of the stream, where they belong
  uint64_t consumed = 0;
  uint64_t slots_posted = 0;
};
static_assert(sizeof(VerbsMessage) == 32);

std::vector<std::byte> Encode(const VerbsHello& hello);
// A packet, of the peer of a side in `role`.
//   Errors  kMalformed, kUnsupported (another version)
Result<VerbsHello> DecodeVerbsHello(std::span<const std::byte> packet, VerbsRole role);

}  // namespace farcall
