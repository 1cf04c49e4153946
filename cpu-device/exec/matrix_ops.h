// SPDX-License-Identifier: Apache-2.0
// mma: the product of a warp's matrices, d = a * b + c. What the compiled kernel leaves for the
// scheduler, and what it finds then.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

enum class MatrixType : uint32_t { kF16, kBf16, kTf32, kF64, kS8, kU8, kE4m3, kE5m2, kF32, kS32 };

// A lane's registers, as words; Wait::kMma's `value` is its address.
struct MatrixWords {
  uint32_t a[4], b[2], c[4];  // d comes back in c
};

// Wait::kMma's `c`: everything but the words.
struct MatrixForm {
  bool tall = false;  // 16 rows instead of 8
  uint32_t k = 0;     // at most 32
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16, c = MatrixType::kF32, d = MatrixType::kF32;
  bool saturates = false;

  uint32_t Pack() const {
    auto type = [](MatrixType t, uint32_t at) { return static_cast<uint32_t>(t) << at; };
    return (tall ? 1u : 0u) | (saturates ? 2u : 0u) | k << 2 | type(a, 8) | type(b, 12) |
           type(c, 16) | type(d, 20);
  }
  static MatrixForm Unpack(uint32_t bits) {
    auto type = [bits](uint32_t at) { return static_cast<MatrixType>(bits >> at & 15); };
    return {(bits & 1) != 0, bits >> 2 & 63, type(8),        type(12),
            type(16),        type(20),       (bits & 2) != 0};
  }
};

struct ThreadContext;
// All lanes of the warp stand in one mma; a lane that is not in `lanes` counts as zeros.
void MultiplyMatrices(ThreadContext* warp, uint32_t lanes);

}  // namespace farcall::cpu_device
