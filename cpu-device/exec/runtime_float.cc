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

// 8-bit formats: sign, exponent, mantissa. e4m3 has no infinity and one NaN pattern, e5m2 is
// IEEE-like.
struct Fp8 {
  int mantissa_bits, bias;
  uint32_t max_finite, nan;
};
constexpr Fp8 kE4m3 = {3, 7, 0x7e, 0x7f};
constexpr Fp8 kE5m2 = {2, 15, 0x7b, 0x7f};

float Decode(const Fp8& format, uint32_t bits) {
  uint32_t magnitude = bits & 0x7f;
  float sign = (bits & 0x80) ? -1.0f : 1.0f;
  if (magnitude > format.max_finite) {
    bool infinite = format.mantissa_bits == 2 && magnitude == 0x7c;
    return infinite ? sign * __builtin_inff() : __builtin_nanf("");
  }
  int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  int mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  if (exponent) mantissa |= 1 << format.mantissa_bits;
  int scale = (exponent ? exponent : 1) - format.bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(mantissa), scale);
}

// Nearest even, saturating to the largest finite value.
uint32_t Encode(const Fp8& format, float value, uint32_t relu) {
  if (std::isnan(value)) return format.nan;
  if (relu && value < 0) value = 0;
  uint32_t sign = std::signbit(value) ? 0x80 : 0;
  if (relu) sign = 0;
  float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;  // has no exponent to take
  if (magnitude >= Decode(format, format.max_finite)) return sign | format.max_finite;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  int unit = std::max(exponent - 1, 1 - format.bias) - format.mantissa_bits;
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
  // A carry out of the mantissa moves into the exponent by itself.
  uint32_t base = static_cast<uint32_t>(unit + format.mantissa_bits + format.bias - 1)
                  << format.mantissa_bits;
  return sign | (base + steps);
}

float FromE4m3(uint32_t bits) {
  return Decode(kE4m3, bits);
}
float FromE5m2(uint32_t bits) {
  return Decode(kE5m2, bits);
}
uint32_t ToE4m3(float value, uint32_t relu) {
  return Encode(kE4m3, value, relu);
}
uint32_t ToE5m2(float value, uint32_t relu) {
  return Encode(kE5m2, value, relu);
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
    Symbol("fc_rt_f32_from_e4m3", FromE4m3),
    Symbol("fc_rt_f32_from_e5m2", FromE5m2),
    Symbol("fc_rt_e4m3_from_f32", ToE4m3),
    Symbol("fc_rt_e5m2_from_f32", ToE5m2),
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
