// SPDX-License-Identifier: Apache-2.0
// Priority classes: their numbers on the wire (QuotaRequest::priority), and as people write them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace farcall {

enum class WirePriority : uint8_t { kNormal = 0, kHigh = 1, kLow = 2 };

inline constexpr std::array<std::string_view, 3> kPriorityNames = {"normal", "high", "low"};

// A number that no class has reads as normal.
inline std::string_view PriorityName(uint8_t number) {
  return kPriorityNames[number < kPriorityNames.size() ? number : 0];
}

// Nothing: no class is called so.
inline std::optional<uint8_t> PriorityNumber(std::string_view name) {
  for (size_t number = 0; number < kPriorityNames.size(); ++number)
    if (kPriorityNames[number] == name) return static_cast<uint8_t>(number);
  return std::nullopt;
}

}  // namespace farcall
