// SPDX-License-Identifier: Apache-2.0
// mma and wmma: the product of a warp's matrices, d = a * b + c. What the compiled kernel leaves
// for the scheduler, and what it finds then.
#pragma once

#include <cstdint>

namespace farcall::cpu_device {

enum class MatrixType : uint32_t {
  kF16,
  kBf16,
  kTf32,
  kF64,
  kS8,
  kU8,
  kE4m3,
  kE5m2,
  kF32,
  kS32,
  kS4,
  kU4,
  kB1,
};
// Inline: the compiler's library has it too.
constexpr uint32_t BitsOf(MatrixType type) {
  switch (type) {
    case MatrixType::kB1:
      return 1;
    case MatrixType::kS4:
    case MatrixType::kU4:
      return 4;
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 16;
    case MatrixType::kF64:
      return 64;
    case MatrixType::kS8:
    case MatrixType::kU8:
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return 8;
    default:
      return 32;
  }
}

// A lane's registers, as words; Wait::kMma's `value` is its address.
struct MatrixWords {
  uint32_t a[16], b[8], c[8];  // d comes back in c
};

inline constexpr uint32_t kMaxMatrixRows = 32, kMaxMatrixColumns = 32, kMaxMatrixDepth = 256;
inline constexpr uint32_t kMaxMatrixA = 4096, kMaxMatrixB = 2048, kMaxMatrixD = 256;  // elements

// Everything but the words: Wait::kMma's `a`, `b` and `c`.
struct MatrixForm {
  uint32_t m = 0, n = 0, k = 0;
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16, c = MatrixType::kF32, d = MatrixType::kF32;
  bool saturates = false;
  bool conjunction = false;  // of single bits: and, not xor
  // wmma: a lane holds the next elements of the matrix, line after line, and a line is a row but in
  // an a or b that lies in memory by columns: what a lane loads then lies side by side there.
  bool by_lines = false, a_by_columns = false, b_by_columns = false;

  uint32_t Types() const {
    auto type = [](MatrixType t, uint32_t at) { return static_cast<uint32_t>(t) << at; };
    return type(a, 0) | type(b, 4) | type(c, 8) | type(d, 12);
  }
  uint32_t Sizes() const { return m | n << 8 | k << 16; }
  uint32_t Flags() const {
    return (saturates ? 1u : 0u) | (conjunction ? 2u : 0u) | (by_lines ? 4u : 0u) |
           (a_by_columns ? 8u : 0u) | (b_by_columns ? 16u : 0u);
  }
  static MatrixForm Of(uint32_t types, uint32_t sizes, uint32_t flags) {
    auto type = [types](uint32_t at) { return static_cast<MatrixType>(types >> at & 15); };
    MatrixForm form{sizes & 255, sizes >> 8 & 255, sizes >> 16, type(0),
                    type(4),     type(8),          type(12)};
    form.saturates = (flags & 1) != 0;
    form.conjunction = (flags & 2) != 0;
    form.by_lines = (flags & 4) != 0;
    form.a_by_columns = (flags & 8) != 0;
    form.b_by_columns = (flags & 16) != 0;
    return form;
  }
  bool operator==(const MatrixForm&) const = default;
};

// An element's value from its bits; to a half, to the nearest, ties to even.
double DecodeElement(MatrixType type, uint64_t bits);
uint32_t ToHalf(double value);

struct ThreadContext;
// All lanes of the warp stand in one mma; a lane that is not in `lanes` counts as zeros.
void MultiplyMatrices(ThreadContext* warp, uint32_t lanes);

}  // namespace farcall::cpu_device
