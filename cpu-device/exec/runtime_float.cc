// SPDX-License-Identifier: Apache-2.0
// Arithmetic with a directed rounding mode, done by the FPU in that mode. Built with -frounding-math.
#include <immintrin.h>

#include <cmath>

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
