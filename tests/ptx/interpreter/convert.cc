// SPDX-License-Identifier: Apache-2.0
// cvt and cvt.pack.
#include <algorithm>
#include <cmath>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

bool IsScalarFloat(Type type) {
  return type == Type::kF16 || type == Type::kBf16 || type == Type::kF32 || type == Type::kF64 ||
         type == Type::kTf32;
}

bool SmallFormat(Type type, Format* out) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
      *out = kHalf;
      return true;
    case Type::kBf16:
    case Type::kBf16x2:
      *out = kBfloat;
      return true;
    case Type::kTf32:
      *out = kTf32;
      return true;
    case Type::kE4m3x2:
      *out = kE4m3;
      return true;
    case Type::kE2m1x2:
      *out = kE2m1;
      return true;
    case Type::kE2m3x2:
      *out = kE2m3;
      return true;
    case Type::kE3m2x2:
      *out = kE3m2;
      return true;
    case Type::kE5m2x2:
      *out = kE5m2;
      return true;
    default:
      return false;
  }
}

double ToDouble(Type type, uint64_t bits, bool ftz) {
  Format format;
  if (type == Type::kF64) return AsDouble(bits);
  if (type == Type::kF32) return ftz ? Flush(AsFloat(bits)) : AsFloat(bits);
  SmallFormat(type, &format);
  return Decode(format, static_cast<uint32_t>(bits));
}

__int128 IntegerValue(Type type, uint64_t bits) {
  const unsigned width = ptx::BitsOf(type);
  if (ptx::IsSigned(type)) return SignExtend(bits, width);
  return static_cast<__int128>(MaskBits(bits, width));
}

void Range(Type type, __int128* low, __int128* high) {
  const unsigned width = ptx::BitsOf(type);
  const __int128 one = 1;
  const bool is_signed = ptx::IsSigned(type);
  *low = is_signed ? -(one << (width - 1)) : 0;
  *high = (one << (is_signed ? width - 1 : width)) - 1;
}

double Saturate(double value) {
  return value > 0 ? std::min(value, 1.0) : 0.0;
}

}  // namespace

// The result is clamped to the destination. A NaN gives 0, or the top bit alone where a 64-bit type
// takes part.
uint64_t Core::ToInteger(Type to, double value, Round round) const {
  const unsigned width = ptx::BitsOf(to);
  if (std::isnan(value)) {
    bool wide = in_.type(1) == Type::kF64 || width == 64;
    return wide ? 1ull << (width - 1) : 0;
  }
  __int128 low, high;
  Range(to, &low, &high);
  value = RoundToIntegral(value, round);
  if (value < static_cast<double>(low)) return MaskBits(static_cast<uint64_t>(low), width);
  if (value >= std::ldexp(1.0, static_cast<int>(ptx::IsSigned(to) ? width - 1 : width)))
    return MaskBits(static_cast<uint64_t>(high), width);
  return MaskBits(static_cast<uint64_t>(static_cast<__int128>(value)), width);
}

uint64_t Core::FloatToFloat(Type to, Type from, uint64_t bits) {
  double value = ToDouble(from, bits, mods_.ftz);
  const bool integral = mods_.rounding >= ptx::Rounding::kRni;
  if (integral) value = RoundToIntegral(value, RoundOf(mods_.rounding));
  if (mods_.sat) value = Saturate(value);
  if (mods_.relu && !(value > 0) && !std::isnan(value)) value = 0;  // +0 for -0 too
  const Round round = integral ? Round::kNearest : RoundOf(mods_.rounding);
  if (to == Type::kF64) return Bits(value);
  if (to == Type::kF32) {
    float r = Narrow(value, round);
    if (mods_.ftz) r = Flush(r);
    return std::isnan(r) ? 0x7fffffff : Bits(r);
  }
  Format format;
  SmallFormat(to, &format);
  uint32_t code = Encode(format, value, round, mods_.satfinite);
  return to == Type::kTf32 ? uint64_t{code} << 13 : code;
}

uint64_t Core::ConvertScalar(Type to, Type from, uint64_t bits) {
  const bool from_float = IsScalarFloat(from), to_float = IsScalarFloat(to);
  if (from_float && to_float) return FloatToFloat(to, from, bits);
  if (from_float)
    return ToInteger(to, ToDouble(from, bits, mods_.ftz), RoundOf(mods_.rounding, Round::kZero));
  __int128 value = IntegerValue(from, bits);
  if (!to_float) {
    if (mods_.sat) {
      __int128 low, high;
      Range(to, &low, &high);
      value = std::clamp(value, low, high);
    }
    return static_cast<uint64_t>(value);
  }
  const Round round = RoundOf(mods_.rounding);
  const bool negative = value < 0;
  const uint64_t magnitude = static_cast<uint64_t>(negative ? -value : value);
  double odd = FromInteger(negative, magnitude);
  if (mods_.sat) odd = Saturate(odd);
  if (to == Type::kF32) return Bits(Narrow(odd, round));
  if (to == Type::kF64) {
    // high * 2^32 + low, both exact, rounded once.
    double high = static_cast<double>(magnitude >> 32) * 0x1p32;
    double low = static_cast<double>(magnitude & 0xffffffff);
    double r = Compute(Arith::kAdd, negative ? -high : high, negative ? -low : low, 0.0, round);
    return Bits(mods_.sat ? Saturate(r) : r == 0 ? 0.0 : r);
  }
  Format format;
  SmallFormat(to, &format);
  return Encode(format, odd, round);
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half. cvt.*.e4m3x2.f16x2 d, a: half by half.
void Core::ConvertPacked(Type to, Type from) {
  Format target, source;
  const Round round = RoundOf(mods_.rounding);
  const bool target_wide = to == Type::kF16x2 || to == Type::kBf16x2;
  const unsigned to_width = target_wide ? 16 : to == Type::kE2m1x2 ? 4 : 8;
  if (!SmallFormat(to, &target)) Unsupported();
  // The eight-bit formats always saturate.
  const bool finite = mods_.satfinite || !target_wide;
  auto encode = [&](double value) {
    if (mods_.relu && !(value > 0) && !std::isnan(value)) value = 0;
    return uint64_t{Encode(target, value, round, finite)};
  };
  if (from == Type::kF32) {
    uint64_t high = encode(ToDouble(from, Read(Op(1), from), mods_.ftz));
    uint64_t low = encode(ToDouble(from, Read(Op(2), from), mods_.ftz));
    Write(Op(0), Type::kB32, high << to_width | low);
    return;
  }
  if (!SmallFormat(from, &source)) Unsupported();
  const unsigned from_width = ptx::BitsOf(from) / 2;
  const uint64_t bits = Read(Op(1), from);
  auto part = [&](unsigned shift) {
    return encode(Decode(source, static_cast<uint32_t>(MaskBits(bits >> shift, from_width))));
  };
  Write(Op(0), Type::kB32, part(from_width) << to_width | part(0));
}

bool Core::Convert() {
  if (in_.opcode != Opcode::kCvt) return false;
  const Type to = in_.type(0), from = in_.type(1);
  if (in_.Has("pack")) {
    // cvt.pack.sat.s16.s32 d, a, b; cvt.pack.sat.s8.s32.b32 d, a, b, c
    const unsigned width = ptx::BitsOf(to);
    uint64_t a = MaskBits(ConvertScalar(to, from, Read(Op(1), from)), width);
    uint64_t b = MaskBits(ConvertScalar(to, from, Read(Op(2), from)), width);
    uint64_t packed = a << width | b;
    if (OperandCount() == 4)
      packed |= MaskBits(Read(Op(3), Type::kB32), 32 - 2 * width) << 2 * width;
    Write(Op(0), Type::kB32, packed);
    return true;
  }
  if (ptx::IsPacked(to)) {
    ConvertPacked(to, from);
    return true;
  }
  bool to_known = IsScalarFloat(to) || ptx::IsInteger(to);
  bool from_known = IsScalarFloat(from) || ptx::IsInteger(from);
  if (!to_known || !from_known) Unsupported();
  Write(Op(0), to, ConvertScalar(to, from, Read(Op(1), from)));
  return true;
}

}  // namespace farcall::cpu_device::ptx_interpreter
