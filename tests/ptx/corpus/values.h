// SPDX-License-Identifier: Apache-2.0
// Input values worth crossing: the edges of each type and a few ordinary numbers.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace farcall::cpu_device::ptx_corpus {

template <typename T>
std::vector<T> Integers() {
  using L = std::numeric_limits<T>;
  std::vector<T> v{0,
                   1,
                   2,
                   3,
                   7,
                   10,
                   100,
                   L::max(),
                   L::min(),
                   static_cast<T>(L::max() - 1),
                   static_cast<T>(L::max() / 2 + 1),
                   static_cast<T>(0x5a3c96e17b2d48f0ull)};
  if (std::numeric_limits<T>::is_signed)
    for (int n : {-1, -2, -7, -100}) v.push_back(static_cast<T>(n));
  return v;
}

template <typename T>
std::vector<T> NonZeroIntegers() {
  std::vector<T> out;
  for (T v : Integers<T>())
    if (v != 0 && v != static_cast<T>(-1)) out.push_back(v);
  return out;
}

inline std::vector<float> Floats() {
  return {0.0f,
          -0.0f,
          1.0f,
          -1.0f,
          1.5f,
          -2.75f,
          0.1f,
          3.14159274f,
          -1e10f,
          1e-10f,
          16777217.0f,
          FLT_MAX,
          -FLT_MAX,
          FLT_MIN,
          FLT_MIN / 4,
          -FLT_MIN / 8,
          1.17549421e-38f,
          INFINITY,
          -INFINITY,
          NAN};
}
inline std::vector<float> FiniteFloats() {
  return {0.0f,   -0.0f,  1.0f,        -1.0f, 1.5f,    -2.75f,       0.1f,       3.14159274f,
          -1e10f, 1e-10f, 16777215.0f, 1e20f, -3e-20f, 0.333333343f, 1.00000012f};
}
inline std::vector<double> Doubles() {
  return {0.0,
          -0.0,
          1.0,
          -1.0,
          1.5,
          -2.75,
          0.1,
          3.141592653589793,
          -1e100,
          1e-100,
          9007199254740993.0,
          DBL_MAX,
          -DBL_MAX,
          DBL_MIN,
          DBL_MIN / 4,
          4294967296.5,
          INFINITY,
          -INFINITY,
          NAN};
}
inline std::vector<double> FiniteDoubles() {
  return {0.0,
          -0.0,
          1.0,
          -1.0,
          1.5,
          -2.75,
          0.1,
          3.141592653589793,
          -1e100,
          1e-100,
          1.0 / 3,
          1e10,
          1.0000000000000002};
}

}  // namespace farcall::cpu_device::ptx_corpus
