// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/verbs_exchange.h"

#include <bit>
#include <cstring>
#include <string>

namespace farcall {
namespace {

Status Wrong(const std::string& what) {
  return {Code::kMalformed, "verbs: the peer " + what};
}

bool IsMemory(const VerbsMemory& memory, size_t bytes) {
  return memory.address != 0 && memory.address <= UINT64_MAX - bytes;
}

}  // namespace

std::vector<std::byte> Encode(const VerbsHello& hello) {
  std::vector<std::byte> packet(sizeof(hello));
  std::memcpy(packet.data(), &hello, sizeof(hello));
  return packet;
}

Result<VerbsHello> DecodeVerbsHello(std::span<const std::byte> packet, VerbsRole role) {
  VerbsHello hello;
  if (packet.size() != sizeof(hello)) return Wrong("sends an address that is cut short");
  std::memcpy(&hello, packet.data(), sizeof(hello));
  if (hello.magic != kVerbsMagic) return Wrong("sends something else than its address");
  if (hello.version != kVerbsVersion) {
    return Status(Code::kUnsupported, "verbs: the peer speaks version " +
                                          std::to_string(hello.version) + ", this side " +
                                          std::to_string(kVerbsVersion));
  }
  const VerbsRole other = role == VerbsRole::kOffers ? VerbsRole::kReaches : VerbsRole::kOffers;
  if (hello.role != other)
    return Wrong("is no " + std::string(other == VerbsRole::kOffers ? "client" : "server"));
  if (hello.mtu < 1 || hello.mtu > 5 || hello.queue_pair >= 1u << 24 ||
      hello.first_packet >= 1u << 24 || hello.reads == 0 || hello.is_ethernet > 1)
    return Wrong("sends no address of a queue pair");
  const uint32_t window = hello.window_bytes;
  if (window < kMinVerbsWindowBytes || window > kMaxVerbsWindowBytes ||
      !std::has_single_bit(window)) {
    return Wrong("takes " + std::to_string(window) + " bytes ahead; a power of two from " +
                 std::to_string(kMinVerbsWindowBytes) + " to " +
                 std::to_string(kMaxVerbsWindowBytes) + " is right");
  }
  if (hello.slots < kMinVerbsSlots || hello.slots > kMaxVerbsSlots ||
      hello.slot_bytes < sizeof(VerbsMessage) || hello.slot_bytes > kMaxVerbsSlotBytes) {
    return Wrong("takes " + std::to_string(hello.slots) + " messages of " +
                 std::to_string(hello.slot_bytes) + " bytes; right are " +
                 std::to_string(kMinVerbsSlots) + " to " + std::to_string(kMaxVerbsSlots) + " of " +
                 std::to_string(sizeof(VerbsMessage)) + " to " +
                 std::to_string(kMaxVerbsSlotBytes));
  }
  if (role == VerbsRole::kReaches &&
      !(IsMemory(hello.sends, window) && IsMemory(hello.receives, window)))
    return Wrong("offers no memory");
  return hello;
}

}  // namespace farcall
