// SPDX-License-Identifier: Apache-2.0
#include "proto/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace farcall {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli, reflected

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) inline uint32_t ContinueByInstruction(
    uint32_t state, std::span<const std::byte> bytes) {
  uint64_t value = state;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  auto word = [&at](size_t i) {
    uint64_t eight;
    std::memcpy(&eight, at + 8 * i, 8);
    return eight;
  };
  for (; left >= 24; left -= 24, at += 24) {
    value = _mm_crc32_u64(value, word(0));
    value = _mm_crc32_u64(value, word(1));
    value = _mm_crc32_u64(value, word(2));
  }
  for (; left >= 8; left -= 8, at += 8) value = _mm_crc32_u64(value, word(0));
  uint32_t low = static_cast<uint32_t>(value);
  for (; left != 0; --left, ++at) low = _mm_crc32_u8(low, static_cast<uint8_t>(*at));
  return low;
}

__attribute__((target("sse4.2,crc32"))) uint32_t Crc32cByInstruction(
    uint32_t crc, std::span<const std::byte> head, std::span<const std::byte> rest) {
  return ~ContinueByInstruction(ContinueByInstruction(~crc, head), rest);
}
#endif

}  // namespace

uint32_t Crc32cByTable(uint32_t crc, std::span<const std::byte> bytes) {
  uint32_t value = ~crc;
  for (std::byte byte : bytes)
    value = (value >> 8) ^ kTable[(value ^ static_cast<uint32_t>(byte)) & 0xFF];
  return ~value;
}

uint32_t Crc32c(uint32_t crc, std::span<const std::byte> head, std::span<const std::byte> rest) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cByInstruction(crc, head, rest);
#endif
  return Crc32cByTable(Crc32cByTable(crc, head), rest);
}

uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  return Crc32c(crc, bytes, {});
}

}  // namespace farcall
