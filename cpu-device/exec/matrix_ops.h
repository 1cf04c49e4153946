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

// Everything but the words: Wait::kMma's `b` (types and flags) and `c` (sizes).
struct MatrixForm {
  uint32_t m = 0, n = 0, k = 0;
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16, c = MatrixType::kF32, d = MatrixType::kF32;
  bool saturates = false;
  bool conjunction = false;  // of single bits: and, not xor
  // wmma: a lane holds the next elements of the matrix, line after line, and a line is a row but in
  // an a or b that lies in memory by columns: what a lane loads then lies side by side there.
  bool by_lines = false, a_by_columns = false, b_by_columns = false;

  // How many words a lane's share of a matrix takes.
  uint32_t WordsOfA() const { return Words(m * k, a); }
  uint32_t WordsOfB() const { return Words(k * n, b); }
  uint32_t WordsOfC() const { return Words(m * n, c); }
  uint32_t WordsOfD() const { return Words(m * n, d); }
  static uint32_t Words(uint32_t elements, MatrixType type) {
    return (elements / 32 * BitsOf(type) + 31) / 32;
  }
  uint32_t TypesAndFlags() const {
    auto type = [](MatrixType t, uint32_t at) { return static_cast<uint32_t>(t) << at; };
    auto flag = [](bool set, uint32_t at) { return (set ? 1u : 0u) << at; };
    return type(a, 0) | type(b, 4) | type(c, 8) | type(d, 12) | flag(saturates, 16) |
           flag(conjunction, 17) | flag(by_lines, 18) | flag(a_by_columns, 19) |
           flag(b_by_columns, 20);
  }
  uint32_t Sizes() const { return m | n << 8 | k << 16; }
  static MatrixForm Of(uint32_t types_and_flags, uint32_t sizes) {
    auto type = [=](uint32_t at) { return static_cast<MatrixType>(types_and_flags >> at & 15); };
    auto flag = [=](uint32_t at) { return (types_and_flags >> at & 1) != 0; };
    MatrixForm form{sizes & 255, sizes >> 8 & 255, sizes >> 16, type(0),
                    type(4),     type(8),          type(12)};
    form.saturates = flag(16);
    form.conjunction = flag(17);
    form.by_lines = flag(18);
    form.a_by_columns = flag(19);
    form.b_by_columns = flag(20);
    return form;
  }
  bool operator==(const MatrixForm&) const = default;
};

// An element's value from its bits; to a half, to the nearest, ties to even.
double DecodeElement(MatrixType type, uint64_t bits);
uint32_t ToHalf(double value);

// d = a * b + c for a warp whose lanes all stand in one mma: of each lane, one after the other, its
// words of a matrix; d may be c.
void MultiplyMatrices(const MatrixForm& form, const uint32_t* a, const uint32_t* b,
                      const uint32_t* c, uint32_t* d);

}  // namespace farcall::cpu_device
