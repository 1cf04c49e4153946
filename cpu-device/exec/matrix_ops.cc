// SPDX-License-Identifier: Apache-2.0
// Fragments, PTX ISA "Matrix Fragments for mma": with g = lane / 4 and q = lane % 4, register r of
// a holds row g + 8 * (r odd) of a tall matrix, and its n elements the columns (r / 2) * 4n + q * n
// on; register r of b the rows r * 4n + q * n on of column g; c and d the columns 2q, 2q + 1 of row
// g, then of row g + 8. The fragments of wmma are the machine's own affair: see MatrixForm.
#include "cpu-device/exec/matrix_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

namespace {

// A small float of the IEEE form. E4M3 has no infinity: only all ones is NaN.
double SmallFloat(uint32_t bits, int exponent_bits, int mantissa_bits, bool has_infinity) {
  uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
  bool negative = (bits >> (mantissa_bits + exponent_bits) & 1) != 0;
  int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  double value = 0;
  if (exponent == top && has_infinity) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (!has_infinity && exponent == top && mantissa == (1u << mantissa_bits) - 1) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

}  // namespace

uint32_t ToHalf(double value) {
  uint32_t sign = std::signbit(value) ? 0x8000u : 0;
  double size = std::fabs(value);
  if (std::isnan(value)) return 0x7fff;
  if (size >= 65520) return sign | 0x7c00;
  if (size < std::ldexp(1, -14)) {
    return sign | static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 24)));
  }
  int exponent = 0;
  double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return sign + ((static_cast<uint32_t>(exponent + 13)) << 10) + mantissa;  // a carry is right
}

double DecodeElement(MatrixType type, uint64_t bits) {
  auto word = static_cast<uint32_t>(bits);
  switch (type) {
    case MatrixType::kF16:
      return SmallFloat(word, 5, 10, true);
    case MatrixType::kBf16:
      return std::bit_cast<float>(word << 16);
    case MatrixType::kTf32:
      return std::bit_cast<float>(word & 0xffffe000u);
    case MatrixType::kF64:
      return std::bit_cast<double>(bits);
    case MatrixType::kS8:
      return static_cast<int8_t>(word);
    case MatrixType::kU8:
      return static_cast<uint8_t>(word);
    case MatrixType::kS4:
      return static_cast<int32_t>(word << 28) >> 28;
    case MatrixType::kU4:
    case MatrixType::kB1:
      return word;
    case MatrixType::kE4m3:
      return SmallFloat(word, 4, 3, false);
    case MatrixType::kE5m2:
      return SmallFloat(word, 5, 2, true);
    case MatrixType::kF32:
      return std::bit_cast<float>(word);
    case MatrixType::kS32:
      return static_cast<int32_t>(word);
  }
  return 0;
}

namespace {

uint64_t Encode(MatrixType type, double value, bool saturates) {
  switch (type) {
    case MatrixType::kF16:
      return ToHalf(value);
    case MatrixType::kF64:
      return std::bit_cast<uint64_t>(value);
    case MatrixType::kS32: {
      // Sums of a few hundred products of bytes and a word: exact in a double.
      if (saturates) value = std::clamp(value, -2147483648.0, 2147483647.0);
      return static_cast<uint32_t>(static_cast<int64_t>(value));
    }
    default:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

// Element `i` of a lane's words, counted in elements.
uint64_t Element(const uint32_t* words, MatrixType type, uint32_t i) {
  uint32_t bits = BitsOf(type);
  if (bits == 64) return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
  uint32_t at = i * bits, word = words[at / 32];
  return bits == 32 ? word : word >> at % 32 & ((1u << bits) - 1);
}

struct Place {
  uint32_t row, column;
};
enum class Role { kA, kB, kC };

// Element `i` of lane `lane`: see the top of this file.
Place PlaceOf(const MatrixForm& form, Role role, uint32_t lane, uint32_t i) {
  uint32_t columns = role == Role::kA ? form.k : form.n;
  if (form.row_by_row) {
    uint32_t rows = role == Role::kB ? form.k : form.m;
    uint32_t at = lane * (rows * columns / kWarpSize) + i;
    return {at / columns, at % columns};
  }
  uint32_t g = lane / 4, q = lane % 4;
  if (role == Role::kC) return {g + 8 * (i / 2), 2 * q + i % 2};
  uint32_t n = std::max(32u / BitsOf(role == Role::kA ? form.a : form.b), 1u);  // a register
  uint32_t r = i / n, tall = role == Role::kA && form.m == 16 ? 2 : 1;
  uint32_t row = g + 8 * (r % tall), depth = r / tall * 4 * n + q * n + i % n;
  return role == Role::kA ? Place{row, depth} : Place{depth, g};
}

// Row by row. On the stack: libcuda.so.1 is opened late, and there is little room for its threads'
// static storage.
struct Product {
  double a[kMaxMatrixA], b[kMaxMatrixB], d[kMaxMatrixD];
};

void Spread(const MatrixForm& form, uint32_t lane, const MatrixWords& words, Product* p) {
  for (uint32_t i = 0; i < form.m * form.k / kWarpSize; ++i) {
    Place at = PlaceOf(form, Role::kA, lane, i);
    p->a[at.row * form.k + at.column] = DecodeElement(form.a, Element(words.a, form.a, i));
  }
  for (uint32_t i = 0; i < form.k * form.n / kWarpSize; ++i) {
    Place at = PlaceOf(form, Role::kB, lane, i);
    p->b[at.row * form.n + at.column] = DecodeElement(form.b, Element(words.b, form.b, i));
  }
  for (uint32_t i = 0; i < form.m * form.n / kWarpSize; ++i) {
    Place at = PlaceOf(form, Role::kC, lane, i);
    p->d[at.row * form.n + at.column] = DecodeElement(form.c, Element(words.c, form.c, i));
  }
}

void Collect(const MatrixForm& form, uint32_t lane, const Product& p, MatrixWords* words) {
  uint32_t bits = BitsOf(form.d);
  std::memset(words->c, 0, sizeof(words->c));
  for (uint32_t i = 0; i < form.m * form.n / kWarpSize; ++i) {
    Place at = PlaceOf(form, Role::kC, lane, i);
    uint64_t value = Encode(form.d, p.d[at.row * form.n + at.column], form.saturates);
    if (bits == 64) {
      std::memcpy(&words->c[2 * i], &value, 8);
    } else {
      words->c[i * bits / 32] |= static_cast<uint32_t>(value) << i * bits % 32;
    }
  }
}

void Multiply(const MatrixForm& form, Product* p) {
  for (uint32_t i = 0; i < form.m; ++i) {
    double* d = &p->d[i * form.n];
    for (uint32_t k = 0; k < form.k; ++k) {
      const double a = p->a[i * form.k + k];
      const double* b = &p->b[k * form.n];
      for (uint32_t j = 0; j < form.n; ++j) d[j] += a * b[j];
    }
  }
}

void MultiplyBits(const MatrixForm& form, Product* p) {
  for (uint32_t i = 0; i < form.m; ++i) {
    for (uint32_t k = 0; k < form.k; ++k) {
      for (uint32_t j = 0; j < form.n; ++j) {
        const bool a = p->a[i * form.k + k] != 0, b = p->b[k * form.n + j] != 0;
        p->d[i * form.n + j] += form.conjunction ? a && b : a != b;
      }
    }
  }
}

}  // namespace

void MultiplyMatrices(ThreadContext* warp, uint32_t lanes) {
  Product p;
  const ThreadContext& first = warp[std::countr_zero(lanes)];
  MatrixForm form = MatrixForm::Of(first.a, first.b, first.c);
  auto words = [&](uint32_t lane) {
    return reinterpret_cast<MatrixWords*>(static_cast<uintptr_t>(warp[lane].value));
  };
  static const MatrixWords kNone = {};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    Spread(form, lane, lanes >> lane & 1 ? *words(lane) : kNone, &p);
  }
  form.a == MatrixType::kB1 ? MultiplyBits(form, &p) : Multiply(form, &p);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (lanes >> lane & 1) Collect(form, lane, p, words(lane));
  }
}

}  // namespace farcall::cpu_device
