// SPDX-License-Identifier: Apache-2.0
// Words of the conditions under which a library call is posted (codegen/spec/thin/, `conditions`).
// One that says no costs a wait, one that says yes to a wrong value an error that comes late.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace farcall::thin {

constexpr bool IsFrom(int64_t first, int64_t value, int64_t last) {
  return value >= first && value <= last;
}

constexpr int64_t Most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Saturates.
constexpr int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

// cublasOperation_t and its like: transposed, with or without conjugation.
constexpr bool IsTransposed(int operation) {
  return operation == 1 || operation == 2;
}

inline bool IsAligned(const void* pointer, uintptr_t bytes) {
  return (reinterpret_cast<uintptr_t>(pointer) & (bytes - 1)) == 0;
}

// cudaDataType_t: 32 or 64 bits, real or complex.
constexpr bool IsFull(int type) {
  return type == 0 || type == 1 || type == 4 || type == 5;
}

// 16 bits, real.
constexpr bool IsHalf(int type) {
  return type == 2 || type == 14;
}

// Vectors of one type, and the type it is computed in: what every cuBLAS takes.
constexpr bool IsVectorTypes(std::initializer_list<int> types, int compute) {
  for (int type : types)
    if (type != *types.begin()) return false;
  const int type = *types.begin();
  return (IsFull(type) && compute == type) || (IsHalf(type) && compute == 0);
}

// Types of A, B and C and a cublasComputeType_t that every cuBLAS multiplies.
constexpr bool IsGemmTypes(int a, int b, int c, int compute) {
  if (a != b) return false;
  switch (compute) {
    case 64:  // 16F
      return a == 2 && c == 2;
    case 68:  // 32F
      return (IsHalf(a) && (c == a || c == 0)) || (a == c && (a == 0 || a == 4));
    case 74:  // 32F by 16 or 19 bits
    case 75:
    case 77:
      return a == c && (a == 0 || a == 4);
    case 70:  // 64F
      return a == c && (a == 1 || a == 5);
    default:
      return false;
  }
}

}  // namespace farcall::thin
