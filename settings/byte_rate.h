// SPDX-License-Identifier: Apache-2.0
// Network budgets as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farcall {

// Less would let a session's heartbeats starve behind its own bytes.
inline constexpr uint64_t kLeastBytesPerSecond = 100'000;
// What QuotaChange has room for, and more than any link carries.
inline constexpr uint64_t kMaxBytesPerSecond = uint64_t{1} << 50;

inline constexpr char kByteRateForm[] = "write 100MB/s, 1GB/s or 64MiB/s; at least 100KB/s";

// "100MB/s", "1GB/s", "64MiB/s", "500000B/s". False if it is none, or out of bounds.
inline bool ParseByteRate(std::string_view text, uint64_t* bytes_per_s) {
  uint64_t number = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (number > kMaxBytesPerSecond) return false;
    number = number * 10 + static_cast<uint64_t>(text[digits] - '0');
  }
  struct Unit {
    std::string_view name;
    uint64_t bytes;
  };
  constexpr Unit kUnits[] = {
      {"B/s", 1},          {"KB/s", 1000},      {"MB/s", 1000 * 1000}, {"GB/s", 1000 * 1000 * 1000},
      {"KiB/s", 1u << 10}, {"MiB/s", 1u << 20}, {"GiB/s", 1u << 30}};
  for (const Unit& unit : kUnits) {
    if (digits == 0 || text.substr(digits) != unit.name) continue;
    if (number > kMaxBytesPerSecond / unit.bytes || number * unit.bytes < kLeastBytesPerSecond)
      return false;
    *bytes_per_s = number * unit.bytes;
    return true;
  }
  return false;
}

// "100MB/s", "64000KB/s": as it is written, exactly.
inline std::string ByteRateText(uint64_t bytes_per_s) {
  if (bytes_per_s >= 1'000'000 && bytes_per_s % 1'000'000 == 0)
    return std::to_string(bytes_per_s / 1'000'000) + "MB/s";
  if (bytes_per_s >= 1000 && bytes_per_s % 1000 == 0)
    return std::to_string(bytes_per_s / 1000) + "KB/s";
  return std::to_string(bytes_per_s) + "B/s";
}

}  // namespace farcall
