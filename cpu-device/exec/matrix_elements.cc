// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "cpu-device/exec/matrix_ops.h"

namespace farcall::cpu_device {

namespace {

// A small float of the IEEE form. E4M3 has no infinity: only all ones is NaN.
double SmallFloat(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  double value = 0;
  if (exponent == top && has_infinity)
    value = mantissa == 0 ? INFINITY : NAN;
  else if (!has_infinity && exponent == top && mantissa == (1u << mantissa_bits) - 1)
    value = NAN;
  else if (exponent == 0)
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  else
    value = std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  return negative ? -value : value;
}

}  // namespace

namespace {

// Any of them, below the least normal half, beyond the largest, NaN.
uint32_t ToHalfSlowly(double value) {
  uint32_t sign = std::signbit(value) ? 0x8000u : 0;
  double size = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (size >= 65520) return sign | 0x7c00;
  return sign | static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 24)));
}

}  // namespace

uint32_t ToHalf(double value) {
  const double size = std::fabs(value);
  if (!(size >= 0x1p-14 && size < 65520)) return ToHalfSlowly(value);
  const auto bits = std::bit_cast<uint64_t>(size);
  constexpr int kDropped = 52 - 10;
  const uint64_t even = bits >> kDropped & 1;
  const uint64_t rounded = (bits + (uint64_t{1} << (kDropped - 1)) - 1 + even) >> kDropped;
  const uint32_t sign = std::signbit(value) ? 0x8000u : 0;
  return sign | static_cast<uint32_t>(rounded - (uint64_t{1023 - 15} << 10));
}

double DecodeElement(MatrixType type, uint64_t bits) {
  auto word = static_cast<uint32_t>(bits);
  switch (type) {
    case MatrixType::kF16:
      return SmallFloat(word, 5, 10, true);
    case MatrixType::kBf16:
      return std::bit_cast<float>(word << 16);
    case MatrixType::kTf32:
      return std::bit_cast<float>(word & 0xffffe000u);
    case MatrixType::kF64:
      return std::bit_cast<double>(bits);
    case MatrixType::kS8:
      return static_cast<int8_t>(word);
    case MatrixType::kU8:
      return static_cast<uint8_t>(word);
    case MatrixType::kS4:
      return static_cast<int32_t>(word << 28) >> 28;
    case MatrixType::kU4:
    case MatrixType::kB1:
      return word;
    case MatrixType::kE4m3:
      return SmallFloat(word, 4, 3, false);
    case MatrixType::kE5m2:
      return SmallFloat(word, 5, 2, true);
    case MatrixType::kF32:
      return std::bit_cast<float>(word);
    case MatrixType::kS32:
      return static_cast<int32_t>(word);
  }
  return 0;
}

}  // namespace farcall::cpu_device
