// SPDX-License-Identifier: Apache-2.0
// Floating arithmetic as PTX defines it: explicit rounding, flush to zero, saturation, small
// formats.
#pragma once

#include <bit>
#include <cstdint>

#include "cpu-device/ptx/instruction.h"

namespace farcall::cpu_device::ptx_interpreter {

enum class Round { kNearest, kZero, kDown, kUp, kAway };  // kAway: nearest, ties away from zero

// rn, rz, rm, rp and their integer forms; `fallback` if the instruction names none.
Round RoundOf(ptx::Rounding rounding, Round fallback = Round::kNearest);

// A binary format narrower than double.
struct Format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;       // e4m3 has none: its largest code but one NaN is a number
  bool is_finite = false;  // a NaN becomes the largest number
};
inline constexpr Format kHalf{5, 10, true}, kBfloat{8, 7, true}, kTf32{8, 10, true};
inline constexpr Format kE4m3{4, 3, false}, kE5m2{5, 2, true};
// Without infinity and NaN: every code is a number.
inline constexpr Format kE2m1{2, 1, false, true}, kE2m3{2, 3, false, true},
    kE3m2{3, 2, false, true};

// Rounds `value` once. Bits are right-aligned (tf32 in 19 bits). `finite`: overflow gives the
// largest number, not infinity.
uint32_t Encode(const Format& format, double value, Round round, bool finite = false);
double Decode(const Format& format, uint32_t bits);

// Sum and fused product-sum with the inexact result forced odd, so that a later rounding to a
// narrow format is the only one.
double AddToOdd(double a, double b);
double FromInteger(bool negative, uint64_t magnitude);  // to odd

enum class Arith { kAdd, kSub, kMul, kDiv, kSqrt, kFma };
// Singles and doubles in the host's arithmetic under the asked rounding mode.
float Compute(Arith op, float a, float b, float c, Round round);
double Compute(Arith op, double a, double b, double c, Round round);
// To integral value.
double RoundToIntegral(double value, Round round);
float Narrow(double value, Round round);  // f64 -> f32

inline float AsFloat(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
inline double AsDouble(uint64_t bits) {
  return std::bit_cast<double>(bits);
}
inline uint64_t Bits(float value) {
  return std::bit_cast<uint32_t>(value);
}
inline uint64_t Bits(double value) {
  return std::bit_cast<uint64_t>(value);
}

// A subnormal single becomes a zero of its sign.
float Flush(float value);

}  // namespace farcall::cpu_device::ptx_interpreter
