// SPDX-License-Identifier: Apache-2.0
// Floating arithmetic of every width.
#include <algorithm>
#include <cmath>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

constexpr uint64_t kNanSingle = 0x7fffffff;

bool IsSmall(Type type) {
  return type == Type::kF16 || type == Type::kBf16;
}
const Format& FormatOf(Type type) {
  return type == Type::kF16 ? kHalf : kBfloat;
}

Type LaneOf(Type type) {
  switch (type) {
    case Type::kF16x2:
      return Type::kF16;
    case Type::kBf16x2:
      return Type::kBf16;
    case Type::kF32x2:
      return Type::kF32;
    default:
      return Type::kNone;
  }
}

template <typename T>
T Saturate(T value) {
  return value > 0 ? std::min(value, T(1)) : T(0);
}

template <typename T>
T Relu(T value) {
  return std::isnan(value) || value > 0 ? value : T(0);
}

// IEEE minimumNumber/maximumNumber: a NaN loses, -0 is below +0.
template <typename T>
T MinMax(T a, T b, bool max, bool propagate) {
  if (std::isnan(a) || std::isnan(b)) {
    if (propagate || (std::isnan(a) && std::isnan(b))) return static_cast<T>(NAN);
    return std::isnan(a) ? b : a;
  }
  if (a == 0 && b == 0) return std::signbit(a) == max ? b : a;
  return (a < b) != max ? a : b;
}

template <typename T>
T MinMaxOf(const ptx::Modifiers& mods, T a, T b, bool max) {
  if (!mods.xorsign_abs) return MinMax(a, b, max, mods.nan);
  bool negative = std::signbit(a) != std::signbit(b);
  T r = MinMax(std::fabs(a), std::fabs(b), max, mods.nan);
  return negative ? -r : r;
}

bool Arithmetic(Opcode opcode, Arith* out) {
  switch (opcode) {
    case Opcode::kAdd:
      *out = Arith::kAdd;
      return true;
    case Opcode::kSub:
      *out = Arith::kSub;
      return true;
    case Opcode::kMul:
      *out = Arith::kMul;
      return true;
    case Opcode::kDiv:
      *out = Arith::kDiv;
      return true;
    case Opcode::kMad:
    case Opcode::kFma:
      *out = Arith::kFma;
      return true;
    default:
      return false;
  }
}

unsigned SourceCount(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kDiv:
    case Opcode::kMin:
    case Opcode::kMax:
    case Opcode::kCopysign:
      return 2;
    case Opcode::kMad:
    case Opcode::kFma:
      return 3;
    case Opcode::kAbs:
    case Opcode::kNeg:
    case Opcode::kRcp:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kLg2:
    case Opcode::kEx2:
    case Opcode::kTanh:
      return 1;
    default:
      return 0;
  }
}

double Approximate(Opcode opcode, double x) {
  switch (opcode) {
    case Opcode::kRcp:
      return 1 / x;
    case Opcode::kSqrt:
      return std::sqrt(x);
    case Opcode::kRsqrt:
      return 1 / std::sqrt(x);
    case Opcode::kSin:
      return std::sin(x);
    case Opcode::kCos:
      return std::cos(x);
    case Opcode::kLg2:
      return std::log2(x);
    case Opcode::kEx2:
      return std::exp2(x);
    default:
      return std::tanh(x);
  }
}

}  // namespace

bool Core::Floating() {
  const unsigned sources = SourceCount(in_.opcode);
  if (sources == 0) return false;
  const Type type = in_.type();
  if (mods_.type_count == 2 && type == Type::kF32 && IsSmall(in_.type(1))) {
    Write(Op(0), type, MixedOp(type, in_.type(1)));
    return true;
  }
  const Type lane = LaneOf(type);
  uint64_t source[3] = {0, 0, 0};
  for (unsigned i = 0; i < sources; ++i) source[i] = Read(Op(i + 1), type);
  if (lane == Type::kNone) {
    if (type != Type::kF32 && type != Type::kF64 && !IsSmall(type)) return false;
    uint64_t result = FloatOp(type, source[0], source[1], source[2]);
    bool ternary =
        (in_.opcode == Opcode::kMin || in_.opcode == Opcode::kMax) && OperandCount() == 4;
    if (ternary) result = FloatOp(type, result, Read(Op(3), type), 0);
    Write(Op(0), type, result);
    return true;
  }
  const unsigned width = ptx::BitsOf(lane);
  uint64_t packed = 0;
  for (unsigned shift = 0; shift < 2 * width; shift += width) {
    uint64_t part =
        FloatOp(lane, MaskBits(source[0] >> shift, width), MaskBits(source[1] >> shift, width),
                MaskBits(source[2] >> shift, width));
    packed |= MaskBits(part, width) << shift;
  }
  if (Op(0).Is(Kind::kVector)) Unsupported("packed result in a vector");
  Write(Op(0), type, packed);
  return true;
}

uint64_t Core::FloatOp(Type type, uint64_t a, uint64_t b, uint64_t c) {
  if (IsSmall(type)) return SmallFloatOp(type, a, b, c);
  const bool single = type == Type::kF32;
  const unsigned top = single ? 31 : 63;
  const uint64_t sign = 1ull << top;
  const bool flush = single && mods_.ftz;
  auto clean = [&](uint64_t bits) { return flush ? Bits(Flush(AsFloat(bits))) : bits; };
  a = clean(a);
  b = clean(b);
  c = clean(c);
  switch (in_.opcode) {
    case Opcode::kAbs:
      return a & ~sign;
    case Opcode::kNeg:
      return a ^ sign;
    case Opcode::kCopysign:
      return (a & sign) | (b & ~sign);
    case Opcode::kMin:
    case Opcode::kMax: {
      bool max = in_.opcode == Opcode::kMax;
      if (!single) return Bits(MinMaxOf(mods_, AsDouble(a), AsDouble(b), max));
      float r = MinMaxOf(mods_, AsFloat(a), AsFloat(b), max);
      return std::isnan(r) ? kNanSingle : Bits(r);
    }
    default:
      break;
  }
  const Round round = RoundOf(mods_.rounding);
  Arith op;
  bool known = Arithmetic(in_.opcode, &op);
  uint64_t one = single ? Bits(1.0f) : Bits(1.0);
  if (!known && !mods_.approx && (in_.opcode == Opcode::kRcp || in_.opcode == Opcode::kSqrt)) {
    known = true;
    op = in_.opcode == Opcode::kRcp ? Arith::kDiv : Arith::kSqrt;
    if (op == Arith::kDiv) {
      b = a;
      a = one;
    }
  }
  if (!known) return Transcendental(type, a);
  if (!single) {
    double r = Compute(op, AsDouble(a), AsDouble(b), AsDouble(c), round);
    return Bits(mods_.sat ? Saturate(r) : r);
  }
  float r = Compute(op, AsFloat(a), AsFloat(b), AsFloat(c), round);
  if (mods_.sat) r = Saturate(r);
  if (mods_.relu) r = Relu(r);
  return std::isnan(r) ? kNanSingle : clean(Bits(r));
}

// The approximations, here as exact as a double makes them; tests compare with a tolerance.
uint64_t Core::Transcendental(Type type, uint64_t a) {
  if (type == Type::kF64) {
    // rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 deliver the upper half only, rsqrt.approx.f64
    // all.
    const uint64_t upper = mods_.ftz ? ~0xffffffffull : ~0ull;
    return Bits(Approximate(in_.opcode, AsDouble(a))) & upper;
  }
  float r = static_cast<float>(Approximate(in_.opcode, AsFloat(a)));
  if (mods_.ftz) r = Flush(r);
  return std::isnan(r) ? kNanSingle : Bits(r);
}

uint64_t Core::SmallFloatOp(Type type, uint64_t a, uint64_t b, uint64_t c) {
  const Format& format = FormatOf(type);
  constexpr uint64_t kSign = 0x8000;
  auto clean = [&](uint64_t bits) {
    bool subnormal = type == Type::kF16 && (bits & 0x7c00) == 0;
    return mods_.ftz && subnormal ? bits & kSign : bits;
  };
  a = clean(a);
  b = clean(b);
  c = clean(c);
  const double x = Decode(format, static_cast<uint32_t>(a)),
               y = Decode(format, static_cast<uint32_t>(b)),
               z = Decode(format, static_cast<uint32_t>(c));
  double r = 0;
  switch (in_.opcode) {
    case Opcode::kAbs:
      return a & ~kSign;
    case Opcode::kNeg:
      return a ^ kSign;
    case Opcode::kAdd:
      r = AddToOdd(x, y);
      break;
    case Opcode::kSub:
      r = AddToOdd(x, -y);
      break;
    case Opcode::kMul:
      r = x * y;
      break;
    case Opcode::kFma:
      r = AddToOdd(x * y, z);
      break;
    case Opcode::kMin:
    case Opcode::kMax:
      r = mods_.xorsign_abs
              ? MinMax(std::fabs(x), std::fabs(y), in_.opcode == Opcode::kMax, mods_.nan)
              : MinMax(x, y, in_.opcode == Opcode::kMax, mods_.nan);
      // The signs as the bits have them: a NaN's too.
      if (mods_.xorsign_abs && ((a ^ b) & kSign) != 0) r = -r;
      break;
    case Opcode::kEx2:
    case Opcode::kTanh:
      r = Approximate(in_.opcode, x);
      break;
    default:
      Unsupported();
  }
  if (mods_.sat) r = Saturate(r);
  if (mods_.relu) r = Relu(r);
  return clean(Encode(format, r, RoundOf(mods_.rounding)));
}

// add.f32.f16 d, a, c: the narrow sources are widened first, then one single-precision operation.
uint64_t Core::MixedOp(Type wide, Type narrow) {
  const Format& format = FormatOf(narrow);
  auto widen = [&](size_t i) {
    return static_cast<float>(Decode(format, static_cast<uint32_t>(Read(Op(i), narrow))));
  };
  const Round round = RoundOf(mods_.rounding);
  float r = 0;
  if (in_.opcode == Opcode::kFma) {
    r = Compute(Arith::kFma, widen(1), widen(2), AsFloat(Read(Op(3), wide)), round);
  } else if (in_.opcode == Opcode::kAdd || in_.opcode == Opcode::kSub) {
    Arith op = in_.opcode == Opcode::kAdd ? Arith::kAdd : Arith::kSub;
    r = Compute(op, widen(1), AsFloat(Read(Op(2), wide)), 0.0f, round);
  } else {
    Unsupported("mixed precision");
  }
  if (mods_.sat) r = Saturate(r);
  return std::isnan(r) ? kNanSingle : Bits(r);
}

}  // namespace farcall::cpu_device::ptx_interpreter
