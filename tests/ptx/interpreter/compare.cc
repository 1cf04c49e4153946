// SPDX-License-Identifier: Apache-2.0
// Comparison and selection: setp, set, selp, slct, testp.
#include <cmath>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

using ptx::Compare;

bool CompareFloats(Compare op, double a, double b) {
  const bool unordered = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Compare::kEq:
      return !unordered && a == b;
    case Compare::kNe:
      return !unordered && a != b;
    case Compare::kLt:
      return !unordered && a < b;
    case Compare::kLe:
      return !unordered && a <= b;
    case Compare::kGt:
      return !unordered && a > b;
    case Compare::kGe:
      return !unordered && a >= b;
    case Compare::kEqu:
      return unordered || a == b;
    case Compare::kNeu:
      return unordered || a != b;
    case Compare::kLtu:
      return unordered || a < b;
    case Compare::kLeu:
      return unordered || a <= b;
    case Compare::kGtu:
      return unordered || a > b;
    case Compare::kGeu:
      return unordered || a >= b;
    case Compare::kNum:
      return !unordered;
    case Compare::kNan:
      return unordered;
    default:
      return false;
  }
}

template <typename T>
bool CompareIntegers(Compare op, T a, T b) {
  switch (op) {
    case Compare::kEq:
      return a == b;
    case Compare::kNe:
      return a != b;
    case Compare::kLt:
    case Compare::kLo:
      return a < b;
    case Compare::kLe:
    case Compare::kLs:
      return a <= b;
    case Compare::kGt:
    case Compare::kHi:
      return a > b;
    case Compare::kGe:
    case Compare::kHs:
      return a >= b;
    default:
      return false;
  }
}

Type ScalarOf(Type type) {
  if (type == Type::kF16x2) return Type::kF16;
  if (type == Type::kBf16x2) return Type::kBf16;
  return type;
}

bool TestProperty(ptx::TestOp test, double value, bool normal) {
  switch (test) {
    case ptx::TestOp::kFinite:
      return std::isfinite(value);
    case ptx::TestOp::kInfinite:
      return std::isinf(value);
    case ptx::TestOp::kNumber:
      return !std::isnan(value);
    case ptx::TestOp::kNotanumber:
      return std::isnan(value);
    case ptx::TestOp::kNormal:
      return normal;
    case ptx::TestOp::kSubnormal:
      return std::isfinite(value) && !normal && value != 0;
    default:
      return false;
  }
}

double ToDouble(Type type, uint64_t bits, bool ftz) {
  switch (type) {
    case Type::kF16: {
      double value = Decode(kHalf, static_cast<uint32_t>(bits));
      return ftz && std::fabs(value) < 0x1p-14 ? std::copysign(0.0, value) : value;
    }
    case Type::kBf16:
      return Decode(kBfloat, static_cast<uint32_t>(bits));
    case Type::kF32:
      return ftz ? Flush(AsFloat(bits)) : AsFloat(bits);
    default:
      return AsDouble(bits);
  }
}

}  // namespace

bool Core::CompareValues(Type type, uint64_t a, uint64_t b) const {
  if (ptx::IsFloat(type))
    return CompareFloats(mods_.compare, ToDouble(type, a, mods_.ftz), ToDouble(type, b, mods_.ftz));
  const unsigned width = ptx::BitsOf(type);
  if (ptx::IsSigned(type))
    return CompareIntegers(mods_.compare, SignExtend(a, width), SignExtend(b, width));
  return CompareIntegers(mods_.compare, MaskBits(a, width), MaskBits(b, width));
}

bool Core::Combine(bool result, size_t operand) const {
  switch (mods_.bool_op) {
    case ptx::BoolOp::kAnd:
      return result & ReadPredicate(Op(operand));
    case ptx::BoolOp::kOr:
      return result | ReadPredicate(Op(operand));
    case ptx::BoolOp::kXor:
      return result ^ ReadPredicate(Op(operand));
    default:
      return result;
  }
}

void Core::Setp() {
  const Type type = in_.type(), scalar = ScalarOf(type);
  const uint64_t a = Read(Op(1), type), b = Read(Op(2), type);
  bool first = CompareValues(scalar, a, b);
  // Packed: p is of the low half, q of the high. Scalar: q is of the opposite.
  bool second = scalar != type ? CompareValues(scalar, a >> 16, b >> 16) : !first;
  bool p = Combine(first, 3), q = Combine(second, 3);
  WritePredicate(Op(0), p);
  if (!in_.second_dst.Is(Kind::kNone)) WritePredicate(in_.second_dst, q);
}

void Core::Set() {
  const Type to = in_.type(0), type = in_.type(1), scalar = ScalarOf(type);
  const uint64_t a = Read(Op(1), type), b = Read(Op(2), type);
  auto encode = [&](Type lane, bool value) -> uint64_t {
    switch (lane) {
      case Type::kF32:
        return value ? Bits(1.0f) : 0;
      case Type::kF16:
      case Type::kF16x2:
        return value ? 0x3c00 : 0;
      case Type::kBf16:
      case Type::kBf16x2:
        return value ? 0x3f80 : 0;
      default:
        return value ? ~0ull : 0;
    }
  };
  bool low = Combine(CompareValues(scalar, a, b), 3);
  if (scalar == type) {
    Write(Op(0), to, encode(to, low));
    return;
  }
  bool high = Combine(CompareValues(scalar, a >> 16, b >> 16), 3);
  Write(Op(0), to, MaskBits(encode(to, low), 16) | MaskBits(encode(to, high), 16) << 16);
}

bool Core::Comparison() {
  const Type type = in_.type();
  switch (in_.opcode) {
    case Opcode::kSetp:
      Setp();
      return true;
    case Opcode::kSet:
      Set();
      return true;
    case Opcode::kSelp:
      Write(Op(0), type, ReadPredicate(Op(3)) ? Read(Op(1), type) : Read(Op(2), type));
      return true;
    case Opcode::kSlct: {
      const Type control = in_.type(1);
      const uint64_t c = Read(Op(3), control);
      bool first =
          control == Type::kF32 ? ToDouble(control, c, mods_.ftz) >= 0 : SignExtend(c, 32) >= 0;
      Write(Op(0), type, first ? Read(Op(1), type) : Read(Op(2), type));
      return true;
    }
    case Opcode::kTestp: {
      const uint64_t bits = Read(Op(1), type);
      bool single = type == Type::kF32;
      double value = ToDouble(type, bits, false);
      bool normal = single ? std::isnormal(AsFloat(bits)) : std::isnormal(value);
      WritePredicate(Op(0), TestProperty(mods_.test, value, normal));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace farcall::cpu_device::ptx_interpreter
