// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli) of frames: catches what TCP's 16-bit sum lets through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace farcall {

// Continues `crc` (0 to begin) over `bytes`.
uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes);
// The same over `head` and then `rest`.
uint32_t Crc32c(uint32_t crc, std::span<const std::byte> head, std::span<const std::byte> rest);
// The same by table alone: what CPUs without the instruction run, and what tests compare with.
uint32_t Crc32cByTable(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace farcall
