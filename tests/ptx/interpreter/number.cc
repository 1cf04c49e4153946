// SPDX-License-Identifier: Apache-2.0
// Floating arithmetic as PTX defines it.
#include "tests/ptx/interpreter/number.h"

#include <algorithm>
#include <cfenv>
#include <cmath>

namespace farcall::cpu_device::ptx_interpreter {
namespace {

class HostRounding {
 public:
  explicit HostRounding(Round round) : saved_(std::fegetround()) {
    switch (round) {
      case Round::kNearest:
      case Round::kAway:
        std::fesetround(FE_TONEAREST);
        break;
      case Round::kZero:
        std::fesetround(FE_TOWARDZERO);
        break;
      case Round::kDown:
        std::fesetround(FE_DOWNWARD);
        break;
      case Round::kUp:
        std::fesetround(FE_UPWARD);
        break;
    }
  }
  ~HostRounding() { std::fesetround(saved_); }

 private:
  int saved_;
};

// volatile keeps the operation between the two changes of mode.
template <typename T>
T ComputeWith(Arith op, T a, T b, T c, Round round) {
  HostRounding mode(round);
  volatile T x = a, y = b, z = c, r = 0;
  switch (op) {
    case Arith::kAdd:
      r = x + y;
      break;
    case Arith::kSub:
      r = x - y;
      break;
    case Arith::kMul:
      r = x * y;
      break;
    case Arith::kDiv:
      r = x / y;
      break;
    case Arith::kSqrt:
      r = std::sqrt(x);
      break;
    case Arith::kFma:
      r = std::fma(x, y, z);
      break;
  }
  return r;
}

// Non-negative `scaled` to an integer; `negative` is the sign of what it stands for.
double RoundMagnitude(double scaled, bool negative, Round round) {
  double low = std::floor(scaled), rest = scaled - low;
  bool up = false;
  switch (round) {
    case Round::kNearest:
      up = rest > 0.5 || (rest == 0.5 && std::fmod(low, 2) != 0);
      break;
    case Round::kAway:
      up = rest >= 0.5;
      break;
    case Round::kZero:
      break;
    case Round::kDown:
      up = negative && rest > 0;
      break;
    case Round::kUp:
      up = !negative && rest > 0;
      break;
  }
  return up ? low + 1 : low;
}

}  // namespace

Round RoundOf(ptx::Rounding rounding, Round fallback) {
  switch (rounding) {
    case ptx::Rounding::kRn:
    case ptx::Rounding::kRni:
      return Round::kNearest;
    case ptx::Rounding::kRz:
    case ptx::Rounding::kRzi:
      return Round::kZero;
    case ptx::Rounding::kRm:
    case ptx::Rounding::kRmi:
      return Round::kDown;
    case ptx::Rounding::kRp:
    case ptx::Rounding::kRpi:
      return Round::kUp;
    case ptx::Rounding::kRna:
      return Round::kAway;
    default:
      return fallback;
  }
}

uint32_t Encode(const Format& format, double value, Round round, bool finite) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int width = format.exponent_bits + format.mantissa_bits;
  const uint32_t exponents = (1u << format.exponent_bits) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << width : 0;
  const uint32_t infinity = exponents << format.mantissa_bits;
  const uint32_t nan = (1u << width) - 1;  // PTX's canonical NaN is all ones
  const uint32_t largest = format.has_infinity ? infinity - 1 : format.is_finite ? nan : nan - 1;
  if (std::isnan(value)) return nan;
  uint64_t code = ~0ull;
  if (!std::isinf(value)) {
    const double magnitude = std::fabs(value);
    int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
    double scaled = std::ldexp(magnitude, format.mantissa_bits - exponent);
    double rounded = RoundMagnitude(scaled, sign != 0, round);
    // The hidden bit, added to the exponent field, makes normal numbers and carries come out by
    // themselves.
    code = static_cast<uint64_t>(rounded) +
           (static_cast<uint64_t>(exponent + bias - 1) << format.mantissa_bits);
    if (exponent + bias - 1 > static_cast<int>(exponents)) code = ~0ull;
  }
  if (code <= largest) return sign | static_cast<uint32_t>(code);
  if (finite) return sign | largest;
  bool toward_zero = round == Round::kZero || (round == Round::kDown && !sign) ||
                     (round == Round::kUp && sign != 0);
  if (toward_zero && !std::isinf(value)) return sign | largest;
  return format.has_infinity ? sign | infinity : sign | nan;
}

double Decode(const Format& format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int width = format.exponent_bits + format.mantissa_bits;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & ((1u << format.exponent_bits) - 1);
  const uint32_t top = (1u << format.exponent_bits) - 1;
  const double sign = (bits >> width) & 1 ? -1.0 : 1.0;
  if (exponent == top && format.has_infinity) return mantissa ? std::nan("") : sign * INFINITY;
  if (!format.is_finite && exponent == top && mantissa == (1u << format.mantissa_bits) - 1)
    return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << format.mantissa_bits),
                           static_cast<int>(exponent) - bias - format.mantissa_bits);
}

double AddToOdd(double a, double b) {
  volatile double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  // The error of a rounded sum is itself a double (two-sum).
  volatile double virtual_b = sum - a, virtual_a = sum - virtual_b;
  volatile double error_b = b - virtual_b, error_a = a - virtual_a;
  double error = error_a + error_b;
  if (error == 0 || (Bits(static_cast<double>(sum)) & 1)) return sum;
  return std::nextafter(static_cast<double>(sum), error > 0 ? INFINITY : -INFINITY);
}

double FromInteger(bool negative, uint64_t magnitude) {
  uint64_t kept = magnitude;
  int dropped = 0;
  bool sticky = false;
  while (kept >> 53) {
    sticky |= kept & 1;
    kept >>= 1;
    ++dropped;
  }
  if (sticky) kept |= 1;
  double value = std::ldexp(static_cast<double>(kept), dropped);
  return negative ? -value : value;
}

float Compute(Arith op, float a, float b, float c, Round round) {
  return ComputeWith(op, a, b, c, round);
}
double Compute(Arith op, double a, double b, double c, Round round) {
  return ComputeWith(op, a, b, c, round);
}

double RoundToIntegral(double value, Round round) {
  if (!std::isfinite(value)) return value;
  return std::copysign(RoundMagnitude(std::fabs(value), std::signbit(value), round), value);
}

float Narrow(double value, Round round) {
  HostRounding mode(round);
  volatile double x = value;
  volatile float r = static_cast<float>(x);
  return r;
}

float Flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

}  // namespace farcall::cpu_device::ptx_interpreter
