// SPDX-License-Identifier: Apache-2.0
// Narrow floats for expected values: encoding by search among all codes, so that it is right by
// inspection.
#pragma once

#include <cmath>
#include <cstdint>

namespace farcall::cpu_device::ptx_corpus {

struct SmallFormat {
  int exponent_bits, mantissa_bits;
  uint32_t infinity;  // code one past the largest number
  uint32_t nan;
};
inline constexpr SmallFormat kF16{5, 10, 0x7c00, 0x7fff}, kBf16{8, 7, 0x7f80, 0x7fff};
// Every code is a number; a NaN becomes the largest.
inline constexpr SmallFormat kF4e2m1{2, 1, 8, 7}, kF6e2m3{2, 3, 32, 31}, kF6e3m2{3, 2, 32, 31};
inline constexpr SmallFormat kF8e4m3{4, 3, 0x7f, 0x7f}, kF8e5m2{5, 2, 0x7c, 0x7f};

// Of a non-negative code; the code `infinity` gives the number that would come next.
inline double Magnitude(const SmallFormat& f, uint32_t code) {
  int bias = (1 << (f.exponent_bits - 1)) - 1;
  int exponent = static_cast<int>(code >> f.mantissa_bits);
  double mantissa = code & ((1u << f.mantissa_bits) - 1);
  double unit = std::ldexp(1.0, -f.mantissa_bits);
  if (exponent == 0) return std::ldexp(mantissa * unit, 1 - bias);
  return std::ldexp(1 + mantissa * unit, exponent - bias);
}

inline double DecodeSmall(const SmallFormat& f, uint32_t bits) {
  uint32_t sign = 1u << (f.exponent_bits + f.mantissa_bits), code = bits & (sign - 1);
  bool e4m3 = f.infinity == f.nan;
  double value = code > f.infinity || (e4m3 && code == f.nan) ? NAN
                 : code == f.infinity                         ? INFINITY
                                                              : Magnitude(f, code);
  return bits & sign ? -value : value;
}

enum class SmallRound { kNearest, kZero, kDown, kUp };

// `value` may be a long double: it is exact.
inline uint32_t EncodeSmall(const SmallFormat& f, long double value,
                            SmallRound round = SmallRound::kNearest, bool finite = false) {
  if (std::isnan(value)) return f.nan;
  bool negative = std::signbit(value);
  uint32_t sign = negative ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
  long double x = std::fabs(value);
  uint32_t low = 0, high = f.infinity;  // Magnitude(low) <= x, and x < Magnitude(high) or overflow
  if (std::isinf(x) || x >= Magnitude(f, high)) {
    low = high;
  } else {
    while (high - low > 1) {
      uint32_t mid = (low + high) / 2;
      (Magnitude(f, mid) <= x ? low : high) = mid;
    }
  }
  uint32_t code = low;
  bool away = (round == SmallRound::kDown && negative) || (round == SmallRound::kUp && !negative);
  if (low < f.infinity && x > Magnitude(f, low)) {
    long double below = x - Magnitude(f, low), above = Magnitude(f, low + 1) - x;
    bool up = round == SmallRound::kNearest ? above < below || (above == below && (low & 1)) : away;
    if (up) ++code;
  }
  if (code >= f.infinity && !std::isinf(x) && (finite || (round != SmallRound::kNearest && !away)))
    code = f.infinity - 1;
  if (code >= f.infinity && finite) code = f.infinity - 1;
  return sign | code;
}

}  // namespace farcall::cpu_device::ptx_corpus
