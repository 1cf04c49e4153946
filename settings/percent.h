// SPDX-License-Identifier: Apache-2.0
// Shares and limits as people write them.
#pragma once

#include <cstdint>
#include <string_view>

#include "settings/decimal.h"

namespace farcall {

inline constexpr char kPartForm[] = "write a part of a device as 30%, 12.5% or 0.3";

// "30%", "12.5%", "0.3", "100%" in thousandths. False if it is none, more than all, or finer than a
// thousandth.
inline bool ParseMilli(std::string_view text, uint32_t* milli) {
  Decimal number;
  if (!ReadDecimal(text, &number)) return false;
  const bool is_percent = number.rest == "%";
  const uint32_t whole = is_percent ? 100 : 1;
  if ((!number.rest.empty() && !is_percent) || number.whole > whole) return false;
  const uint64_t billionths = number.whole * kBillion + number.billionths;
  const uint64_t thousandth = uint64_t{kBillion} * whole / 1000;
  if (billionths > uint64_t{kBillion} * whole || billionths % thousandth != 0) return false;
  *milli = static_cast<uint32_t>(billionths / thousandth);
  return true;
}

}  // namespace farcall
