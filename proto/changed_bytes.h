// SPDX-License-Identifier: Apache-2.0
// Which bytes of a stretch differ from an older copy: a mask, a bit a byte, lowest first. Two sides
// that write next to each other send and take only their own bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace farcall {

constexpr size_t MaskBytes(size_t bytes) {
  return (bytes + 7) / 8;
}

// Of up to eight bytes.
inline uint8_t DifferingBytes(const std::byte* now, const std::byte* before, size_t bytes = 8) {
  uint64_t a = 0, b = 0;
  std::memcpy(&a, now, bytes);
  std::memcpy(&b, before, bytes);
  uint64_t x = a ^ b;
  // The high bit of each byte that is not zero, gathered into the top byte.
  constexpr uint64_t kLow = 0x7F7F7F7F7F7F7F7F;
  uint64_t high = (((x & kLow) + kLow) | x) & ~kLow;
  return static_cast<uint8_t>(((high >> 7) * 0x0102040810204080) >> 56);
}

// `mask` has MaskBytes(now.size()). False: no byte differs.
inline bool MaskChanged(std::span<const std::byte> now, const std::byte* before, std::byte* mask) {
  uint8_t any = 0;
  for (size_t at = 0; at < now.size(); at += 8) {
    uint8_t word = DifferingBytes(&now[at], before + at, std::min<size_t>(8, now.size() - at));
    mask[at / 8] = static_cast<std::byte>(word);
    any |= word;
  }
  return any != 0;
}

// A mask fits its bytes if it is empty (all of them count) or has a bit for each.
constexpr bool MaskFits(size_t mask_bytes, size_t bytes) {
  return mask_bytes == 0 || mask_bytes == MaskBytes(bytes);
}

// Puts the bytes that count into both copies; no other byte is written.
inline void TakeChanged(std::span<const std::byte> bytes, std::span<const std::byte> mask,
                        std::byte* memory, std::byte* agreed) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    size_t count = std::min<size_t>(8, bytes.size() - at);
    unsigned word = mask.empty() ? 0xFF : static_cast<unsigned>(mask[at / 8]);
    if (word == 0) continue;
    if (word == 0xFF) {
      std::memcpy(memory + at, &bytes[at], count);
      std::memcpy(agreed + at, &bytes[at], count);
      continue;
    }
    for (size_t i = 0; i < count; ++i)
      if ((word >> i & 1) != 0) memory[at + i] = agreed[at + i] = bytes[at + i];
  }
}

}  // namespace farcall
