// SPDX-License-Identifier: Apache-2.0
// Arithmetic with a directed rounding mode, done by the FPU in that mode. Built with
// -frounding-math.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cpu-device/exec/runtime.h"

namespace farcall::cpu_device {
namespace {

// mode: the field of MXCSR: 0 nearest even, 1 down, 2 up, 3 to zero.
class RoundingScope {
 public:
  explicit RoundingScope(unsigned mode) : saved_(_mm_getcsr()) {
    _mm_setcsr((saved_ & ~0x6000u) | mode << 13);
  }
  ~RoundingScope() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

// volatile keeps the operation between the two writes of MXCSR.
template <typename T>
T Add(T a, T b, unsigned mode) {
  RoundingScope scope(mode);
  volatile T x = a, result = x + b;
  return result;
}
template <typename T>
T Mul(T a, T b, unsigned mode) {
  RoundingScope scope(mode);
  volatile T x = a, result = x * b;
  return result;
}
template <typename T>
T Div(T a, T b, unsigned mode) {
  RoundingScope scope(mode);
  volatile T x = a, result = x / b;
  return result;
}
template <typename T>
T Fma(T a, T b, T c, unsigned mode) {
  RoundingScope scope(mode);
  volatile T x = a, result = std::fma(static_cast<T>(x), b, c);
  return result;
}
template <typename T>
T Sqrt(T a, unsigned mode) {
  RoundingScope scope(mode);
  volatile T x = a, result = std::sqrt(static_cast<T>(x));
  return result;
}
template <typename To, typename From>
To Convert(From a, unsigned mode) {
  RoundingScope scope(mode);
  volatile From x = a;
  volatile To result = static_cast<To>(x);
  return result;
}

// Formats of 4 to 8 bits: sign, exponent, mantissa. e5m2 is IEEE-like; e4m3 has no infinity and one
// NaN pattern; those of 4 and 6 bits have neither, and a NaN becomes their largest number.
struct SmallFormat {
  int exponent_bits, mantissa_bits;
  uint32_t max_finite, nan;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
};
constexpr SmallFormat kE4m3 = {4, 3, 0x7e, 0x7f}, kE5m2 = {5, 2, 0x7b, 0x7f},
                      kE2m1 = {2, 1, 0x7, 0x7}, kE2m3 = {2, 3, 0x1f, 0x1f},
                      kE3m2 = {3, 2, 0x1f, 0x1f};

float Decode(const SmallFormat& format, uint32_t bits) {
  uint32_t magnitude = bits & (format.sign() - 1);
  float sign = (bits & format.sign()) ? -1.0f : 1.0f;
  if (magnitude > format.max_finite) {
    bool infinite = format.exponent_bits == 5 && magnitude == 0x7c;
    return infinite ? sign * __builtin_inff() : __builtin_nanf("");
  }
  int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  int mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  if (exponent) mantissa |= 1 << format.mantissa_bits;
  int scale = (exponent ? exponent : 1) - format.bias() - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(mantissa), scale);
}

// Nearest even, saturating to the largest finite value.
uint32_t Encode(const SmallFormat& format, float value, uint32_t relu) {
  if (std::isnan(value)) return format.nan;
  if (relu && value < 0) value = 0;
  uint32_t sign = std::signbit(value) ? format.sign() : 0;
  if (relu) sign = 0;
  float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;  // has no exponent to take
  if (magnitude >= Decode(format, format.max_finite)) return sign | format.max_finite;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  int unit = std::max(exponent - 1, 1 - format.bias()) - format.mantissa_bits;
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A carry out of the mantissa moves into the exponent by itself.
  uint32_t base = static_cast<uint32_t>(unit + format.mantissa_bits + format.bias() - 1)
                  << format.mantissa_bits;
  return sign | (base + steps);
}

template <const SmallFormat& kFormat>
float FromSmall(uint32_t bits) {
  return Decode(kFormat, bits);
}
template <const SmallFormat& kFormat>
uint32_t ToSmall(float value, uint32_t relu) {
  return Encode(kFormat, value, relu);
}

template <typename F>
RuntimeSymbol Symbol(std::string_view name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

const RuntimeSymbol kSymbols[] = {
    Symbol("fc_rt_add_f32", Add<float>),
    Symbol("fc_rt_add_f64", Add<double>),
    Symbol("fc_rt_mul_f32", Mul<float>),
    Symbol("fc_rt_mul_f64", Mul<double>),
    Symbol("fc_rt_div_f32", Div<float>),
    Symbol("fc_rt_div_f64", Div<double>),
    Symbol("fc_rt_fma_f32", Fma<float>),
    Symbol("fc_rt_fma_f64", Fma<double>),
    Symbol("fc_rt_sqrt_f32", Sqrt<float>),
    Symbol("fc_rt_sqrt_f64", Sqrt<double>),
    Symbol("fc_rt_f32_from_e4m3", FromSmall<kE4m3>),
    Symbol("fc_rt_f32_from_e5m2", FromSmall<kE5m2>),
    Symbol("fc_rt_e4m3_from_f32", ToSmall<kE4m3>),
    Symbol("fc_rt_e5m2_from_f32", ToSmall<kE5m2>),
    Symbol("fc_rt_f32_from_e2m1", FromSmall<kE2m1>),
    Symbol("fc_rt_f32_from_e2m3", FromSmall<kE2m3>),
    Symbol("fc_rt_f32_from_e3m2", FromSmall<kE3m2>),
    Symbol("fc_rt_e2m1_from_f32", ToSmall<kE2m1>),
    Symbol("fc_rt_e2m3_from_f32", ToSmall<kE2m3>),
    Symbol("fc_rt_e3m2_from_f32", ToSmall<kE3m2>),
    Symbol("fc_rt_f32_from_f64", Convert<float, double>),
    Symbol("fc_rt_f32_from_s64", Convert<float, long long>),
    Symbol("fc_rt_f32_from_u64", Convert<float, unsigned long long>),
    Symbol("fc_rt_f64_from_s64", Convert<double, long long>),
    Symbol("fc_rt_f64_from_u64", Convert<double, unsigned long long>),
};

}  // namespace

const RuntimeSymbol* FloatSymbols(unsigned* count) {
  *count = sizeof(kSymbols) / sizeof(kSymbols[0]);
  return kSymbols;
}

}  // namespace farcall::cpu_device
