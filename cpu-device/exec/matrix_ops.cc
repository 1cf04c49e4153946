// SPDX-License-Identifier: Apache-2.0
// Fragments, PTX ISA "Matrix Fragments for mma": with g = lane / 4 and q = lane % 4, register r of
// a holds row g + 8 * (r odd) of a tall matrix, and its n elements the columns (r / 2) * 4n + q * n
// on; register r of b the rows r * 4n + q * n on of column g; c and d the columns 2q, 2q + 1 of row
// g, then of row g + 8. The fragments of wmma are the machine's own affair: see MatrixForm.
#include "cpu-device/exec/matrix_ops.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

namespace {

struct Place {
  uint32_t row, column;
};
enum class Role { kA, kB, kC };

bool IsByColumns(const MatrixForm& form, Role role) {
  return role == Role::kA ? form.a_by_columns : role == Role::kB && form.b_by_columns;
}

// Element `i` of lane `lane`: see the top of this file.
Place PlaceOf(const MatrixForm& form, Role role, uint32_t lane, uint32_t i) {
  if (form.by_lines) {
    uint32_t rows = role == Role::kB ? form.k : form.m,
             columns = role == Role::kA ? form.k : form.n;
    uint32_t at = lane * (rows * columns / kWarpSize) + i;
    return IsByColumns(form, role) ? Place{at % rows, at / rows}
                                   : Place{at / columns, at % columns};
  }
  uint32_t g = lane / 4, q = lane % 4;
  if (role == Role::kC) return {g + 8 * (i / 2), 2 * q + i % 2};
  uint32_t n = std::max(32u / BitsOf(role == Role::kA ? form.a : form.b), 1u);  // a register
  uint32_t r = i / n, tall = role == Role::kA && form.m == 16 ? 2 : 1;
  uint32_t row = g + 8 * (r % tall), depth = r / tall * 4 * n + q * n + i % n;
  return role == Role::kA ? Place{row, depth} : Place{depth, g};
}

// Where each lane's elements lie in the matrices, row by row: lane after lane, as they lie in its
// words. The same for all products of a form.
struct Plan {
  explicit Plan(const MatrixForm& of) : form(of) {
    auto fill = [&](Role role, uint32_t rows, uint32_t columns, std::vector<uint16_t>* places) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        for (uint32_t i = 0; i < rows * columns / kWarpSize; ++i) {
          const Place at = PlaceOf(form, role, lane, i);
          places->push_back(static_cast<uint16_t>(at.row * columns + at.column));
        }
      }
    };
    fill(Role::kA, form.m, form.k, &a);
    fill(Role::kB, form.k, form.n, &b);
    fill(Role::kC, form.m, form.n, &c);
  }
  // A lane's elements lie side by side.
  bool InOrder(Role role) const { return form.by_lines && !IsByColumns(form, role); }

  const MatrixForm form;
  std::vector<uint16_t> a, b, c;
};

// A kernel has one or two forms.   Thread  any
const Plan& PlanOf(const MatrixForm& form) {
  static thread_local const Plan* last = nullptr;
  if (last != nullptr && last->form == form) return *last;
  static std::mutex mutex;
  static auto* plans = new std::vector<std::unique_ptr<const Plan>>;
  std::lock_guard lock(mutex);
  auto found = std::find_if(plans->begin(), plans->end(),
                            [&](const auto& plan) { return plan->form == form; });
  if (found == plans->end()) found = plans->insert(found, std::make_unique<Plan>(form));
  return *(last = found->get());
}

double HalfToDouble(uint32_t half) {
  // Exponent and mantissa in a double's places, and the difference of the biases.
  const double size = (half & 0x7c00) == 0x7c00
                          ? std::bit_cast<double>(0x7ff0000000000000 | uint64_t{half & 0x3ff} << 42)
                          : std::bit_cast<double>(uint64_t{half & 0x7fff} << 42) * 0x1p1008;
  return (half & 0x8000) != 0 ? -size : size;
}

using Bytes = std::array<double, 256>;

Bytes ValuesOf(MatrixType type) {
  Bytes values{};
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = DecodeElement(type, i);
  return values;
}

// The value of an element that is taken out of its word.
template <MatrixType kType>
double ValueOf(uint64_t bits) {
  const auto word = static_cast<uint32_t>(bits);
  if constexpr (kType == MatrixType::kF16) {
    return HalfToDouble(word);
  } else if constexpr (kType == MatrixType::kE4m3 || kType == MatrixType::kE5m2) {
    static const Bytes* values = new Bytes(ValuesOf(kType));
    return (*values)[bits];
  } else if constexpr (kType == MatrixType::kF32) {
    return std::bit_cast<float>(word);
  } else if constexpr (kType == MatrixType::kBf16) {
    return std::bit_cast<float>(word << 16);
  } else if constexpr (kType == MatrixType::kS8) {
    return static_cast<int8_t>(word);
  } else if constexpr (kType == MatrixType::kS32) {
    return static_cast<int32_t>(word);
  } else {
    return DecodeElement(kType, bits);
  }
}

template <MatrixType kType>
void DecodeWords(const uint32_t* words, uint32_t begin, uint32_t count, double* values) {
  constexpr uint32_t kBits = BitsOf(kType);
  for (uint32_t i = begin; i < count; ++i) {
    uint64_t bits = 0;
    if constexpr (kBits == 64)
      bits = words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
    else if constexpr (kBits == 32)
      bits = words[i];
    else
      bits = words[i * kBits / 32] >> i * kBits % 32 & ((1u << kBits) - 1);
    values[i] = ValueOf<kType>(bits);
  }
}

#ifdef __x86_64__
[[gnu::target("avx2,f16c")]] uint32_t DecodeHalvesWide(const uint32_t* words, uint32_t count,
                                                       double* values) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&words[i / 2]));
    _mm256_storeu_pd(&values[i], _mm256_cvtps_pd(_mm_cvtph_ps(halves)));
  }
  return i;
}
#endif

bool IsWide() {
#ifdef __x86_64__
  static const bool is_wide = [] {
    uint32_t a = 0, b = 0, features = 0, d = 0;  // not every compiler knows "f16c" by name
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &features, &d) != 0 &&
           (features & bit_F16C) != 0;
  }();
  return is_wide;
#else
  return false;
#endif
}

template <MatrixType kType>
void SpreadWords(const uint32_t* words, const std::vector<uint16_t>& places, bool in_order,
                 double* matrix) {
  const auto count = static_cast<uint32_t>(places.size());
  double room[kMaxMatrixA];
  double* values = in_order ? matrix : room;
  uint32_t done = 0;
#ifdef __x86_64__
  if (kType == MatrixType::kF16 && IsWide()) done = DecodeHalvesWide(words, count, values);
#endif
  DecodeWords<kType>(words, done, count, values);
  for (uint32_t i = 0; i < count && !in_order; ++i) matrix[places[i]] = values[i];
}

void Spread(MatrixType type, const uint32_t* words, const std::vector<uint16_t>& places,
            bool in_order, double* matrix) {
  switch (type) {
#define FARCALL_TYPE(name) \
  case MatrixType::name:   \
    return SpreadWords<MatrixType::name>(words, places, in_order, matrix)
    FARCALL_TYPE(kF16);
    FARCALL_TYPE(kBf16);
    FARCALL_TYPE(kTf32);
    FARCALL_TYPE(kF64);
    FARCALL_TYPE(kS8);
    FARCALL_TYPE(kU8);
    FARCALL_TYPE(kE4m3);
    FARCALL_TYPE(kE5m2);
    FARCALL_TYPE(kF32);
    FARCALL_TYPE(kS32);
    FARCALL_TYPE(kS4);
    FARCALL_TYPE(kU4);
    FARCALL_TYPE(kB1);
#undef FARCALL_TYPE
  }
}

template <MatrixType kType>
uint64_t Encode(double value, bool saturates) {
  if constexpr (kType == MatrixType::kF16) {
    return ToHalf(value);
  } else if constexpr (kType == MatrixType::kF64) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (kType == MatrixType::kS32) {
    // Sums of a few hundred products of bytes and a word: exact in a double.
    if (saturates) value = std::clamp(value, -2147483648.0, 2147483647.0);
    return static_cast<uint32_t>(static_cast<int64_t>(value));
  } else {
    return std::bit_cast<uint32_t>(static_cast<float>(value));
  }
}

template <MatrixType kType>
void CollectWords(const Plan& plan, const double* matrix, uint32_t* words) {
  constexpr uint32_t kBits = BitsOf(kType);
  const bool saturates = plan.form.saturates;
  const auto count = static_cast<uint32_t>(plan.c.size());
  double room[kMaxMatrixD];
  if (!plan.InOrder(Role::kC)) {
    for (uint32_t i = 0; i < count; ++i) room[i] = matrix[plan.c[i]];
    matrix = room;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t value = Encode<kType>(matrix[i], saturates);
    if constexpr (kBits >= 32)
      std::memcpy(&words[i * kBits / 32], &value, kBits / 8);
    else if (i % 2 == 0)
      words[i / 2] = static_cast<uint32_t>(value);
    else
      words[i / 2] |= static_cast<uint32_t>(value) << 16;
  }
}

void Collect(const Plan& plan, const double* matrix, uint32_t* words) {
  switch (plan.form.d) {
    case MatrixType::kF16:
      return CollectWords<MatrixType::kF16>(plan, matrix, words);
    case MatrixType::kF64:
      return CollectWords<MatrixType::kF64>(plan, matrix, words);
    case MatrixType::kS32:
      return CollectWords<MatrixType::kS32>(plan, matrix, words);
    default:
      return CollectWords<MatrixType::kF32>(plan, matrix, words);
  }
}

// Row by row. On the stack: libcuda.so.1 is opened late, and there is little room for its threads'
// static storage.
struct Product {
  double a[kMaxMatrixA], b[kMaxMatrixB], d[kMaxMatrixD];
};

// d += a * b. Each sum in the order of k, no product fused: the same on all processors.
template <uint32_t kColumns>
[[gnu::always_inline]] inline void MultiplyRows(const MatrixForm& form, Product* p) {
  for (uint32_t i = 0; i < form.m; ++i) {
    double sums[kColumns];
    std::memcpy(sums, &p->d[i * kColumns], sizeof(sums));
    for (uint32_t k = 0; k < form.k; ++k) {
      const double a = p->a[i * form.k + k];
      const double* b = &p->b[k * kColumns];
      for (uint32_t j = 0; j < kColumns; ++j) sums[j] += a * b[j];
    }
    std::memcpy(&p->d[i * kColumns], sums, sizeof(sums));
  }
}

// wmma has 8, 16 and 32 columns, mma 8.
[[gnu::always_inline]] inline void MultiplyAny(const MatrixForm& form, Product* p) {
  if (form.n == 8) return MultiplyRows<8>(form, p);
  if (form.n == 16) return MultiplyRows<16>(form, p);
  return MultiplyRows<32>(form, p);
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void MultiplyWide(const MatrixForm& form, Product* p) {
  MultiplyAny(form, p);
}
#endif

void Multiply(const MatrixForm& form, Product* p) {
#ifdef __x86_64__
  if (IsWide()) return MultiplyWide(form, p);
#endif
  MultiplyAny(form, p);
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

void MultiplyMatrices(const MatrixForm& form, const uint32_t* a, const uint32_t* b,
                      const uint32_t* c, uint32_t* d) {
  Product p;
  const Plan& plan = PlanOf(form);
  Spread(form.a, a, plan.a, plan.InOrder(Role::kA), p.a);
  Spread(form.b, b, plan.b, plan.InOrder(Role::kB), p.b);
  Spread(form.c, c, plan.c, plan.InOrder(Role::kC), p.d);
  form.a == MatrixType::kB1 ? MultiplyBits(form, &p) : Multiply(form, &p);
  Collect(plan, p.d, d);
}

}  // namespace farcall::cpu_device
