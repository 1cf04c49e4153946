// SPDX-License-Identifier: Apache-2.0
// How many times a device's memory is lent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "settings/decimal.h"
#include "settings/milli.h"

namespace farcall {

inline constexpr uint32_t kMaxOversubscribeMilli = 16'000;
inline constexpr char kOversubscribeForm[] = "write a number from 1 to 16, such as 1.8";

// "1.8" in thousandths, rounded. False if it is none, or out of bounds.
inline bool ParseOversubscribe(std::string_view text, uint32_t* milli) {
  constexpr uint32_t kMillionth = kBillion / 1000;
  Decimal number;
  if (!ReadDecimal(text, &number) || !number.rest.empty() || number.whole > kMaxOversubscribeMilli)
    return false;
  const uint64_t read = number.whole * 1000 + (number.billionths + kMillionth / 2) / kMillionth;
  if (read < kWholeMilli || read > kMaxOversubscribeMilli) return false;
  *milli = static_cast<uint32_t>(read);
  return true;
}

// Of a device that has `bytes`, what is lent beyond them.
inline uint64_t LentBeyond(uint64_t bytes, uint32_t oversubscribe_milli) {
  const uint64_t beyond = std::max(oversubscribe_milli, kWholeMilli) - kWholeMilli;
  return bytes / 1000 * beyond + bytes % 1000 * beyond / 1000;
}

}  // namespace farcall
