// SPDX-License-Identifier: Apache-2.0
// cp.reduce.async.bulk.tensor, one element: blocks on other threads may reduce into it as well.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cpu-device/exec/matrix_ops.h"
#include "cpu-device/exec/tensor_map.h"

namespace farcall::cpu_device {
namespace {

constexpr char kNoSuchReduction[] =
    "a tensor of this type has no such reduction: integers of 32 and 64 bits have all (inc and dec "
    "unsigned 32 alone), halves and bfloat16s add, min and max, floats and doubles add";

// `next` gives the new bits of the old ones.
template <typename Bits, typename Next>
void Exchange(uint8_t* there, Next next) {
  std::atomic_ref<Bits> place(*reinterpret_cast<Bits*>(there));
  Bits old = place.load(std::memory_order_relaxed);
  while (!place.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
}

template <typename Integer>
const char* ReduceInteger(TensorReduce reduce, uint8_t* there, const uint8_t* here) {
  using Bits = std::make_unsigned_t<Integer>;
  Integer value;
  std::memcpy(&value, here, sizeof(value));
  const auto with = static_cast<Bits>(value);
  constexpr bool kCounts = std::is_same_v<Integer, uint32_t>;
  if ((reduce == TensorReduce::kInc || reduce == TensorReduce::kDec) && !kCounts)
    return kNoSuchReduction;
  Exchange<Bits>(there, [&](Bits old) -> Bits {
    switch (reduce) {
      case TensorReduce::kAdd:
        return old + with;
      case TensorReduce::kMin:
        return static_cast<Bits>(std::min(static_cast<Integer>(old), value));
      case TensorReduce::kMax:
        return static_cast<Bits>(std::max(static_cast<Integer>(old), value));
      case TensorReduce::kInc:
        return old >= with ? 0 : old + 1;
      case TensorReduce::kDec:
        return old == 0 || old > with ? with : old - 1;
      case TensorReduce::kAnd:
        return old & with;
      case TensorReduce::kOr:
        return old | with;
      default:
        return old ^ with;
    }
  });
  return nullptr;
}

// To the nearest, ties to even: a sum of two in double precision, rounded once more, is right.
uint16_t ToBfloat(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// One that is no number gives way.
double Least(double a, double b, bool most) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) == most ? b : a;
  return (a < b) == most ? b : a;
}

const char* ReduceHalf(MatrixType type, TensorReduce reduce, uint8_t* there, const uint8_t* here) {
  if (reduce > TensorReduce::kMax) return kNoSuchReduction;
  uint16_t bits;
  std::memcpy(&bits, here, sizeof(bits));
  const double with = DecodeElement(type, bits);
  Exchange<uint16_t>(there, [&](uint16_t old_bits) {
    const double old = DecodeElement(type, old_bits);
    const double made =
        reduce == TensorReduce::kAdd ? old + with : Least(old, with, reduce == TensorReduce::kMax);
    return type == MatrixType::kF16 ? static_cast<uint16_t>(ToHalf(made)) : ToBfloat(made);
  });
  return nullptr;
}

template <typename Float, typename Bits>
const char* AddFloat(TensorReduce reduce, uint8_t* there, const uint8_t* here) {
  if (reduce != TensorReduce::kAdd) return kNoSuchReduction;
  Float with;
  std::memcpy(&with, here, sizeof(with));
  Exchange<Bits>(there,
                 [&](Bits old) { return std::bit_cast<Bits>(std::bit_cast<Float>(old) + with); });
  return nullptr;
}

}  // namespace

// CUtensorMapDataType's numbers.
const char* ReduceTensorElement(uint32_t type, TensorReduce reduce, uint8_t* there,
                                const uint8_t* here) {
  switch (type) {
    case 2:
      return ReduceInteger<uint32_t>(reduce, there, here);
    case 3:
      return ReduceInteger<int32_t>(reduce, there, here);
    case 4:
      return ReduceInteger<uint64_t>(reduce, there, here);
    case 5:
      return ReduceInteger<int64_t>(reduce, there, here);
    case 6:
      return ReduceHalf(MatrixType::kF16, reduce, there, here);
    case 7:
      return AddFloat<float, uint32_t>(reduce, there, here);
    case 8:
      return AddFloat<double, uint64_t>(reduce, there, here);
    case 9:
      return ReduceHalf(MatrixType::kBf16, reduce, there, here);
    default:
      return kNoSuchReduction;
  }
}

}  // namespace farcall::cpu_device
