// SPDX-License-Identifier: Apache-2.0
// Numbers as people write them, the same in every locale: no sign, exponent, hexadecimal or word.
#pragma once

#include <cstdint>
#include <string_view>

namespace farcall {

inline constexpr uint32_t kBillion = 1'000'000'000;

struct Decimal {
  uint64_t whole = 0;
  uint32_t billionths = 0;
  std::string_view rest;  // what follows: a unit
};

// "12", "12.5". False: `text` begins with no such number, or it has no room here.
inline bool ReadDecimal(std::string_view text, Decimal* number) {
  auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  Decimal read;
  size_t at = 0;
  for (; is_digit(at); ++at) {
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    if (__builtin_mul_overflow(read.whole, uint64_t{10}, &read.whole) ||
        __builtin_add_overflow(read.whole, digit, &read.whole))
      return false;
  }
  if (at == 0) return false;
  if (at < text.size() && text[at] == '.') {
    if (!is_digit(++at)) return false;
    for (uint32_t unit = kBillion / 10; is_digit(at); ++at, unit /= 10) {
      if (unit == 0 && text[at] != '0') return false;
      read.billionths += unit * static_cast<uint32_t>(text[at] - '0');
    }
  }
  read.rest = text.substr(at);
  *number = read;
  return true;
}

}  // namespace farcall
