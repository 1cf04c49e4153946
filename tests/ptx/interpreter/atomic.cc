// SPDX-License-Identifier: Apache-2.0
// atom and red. One thread runs at a time, so they are plain read-modify-write.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

using ptx::AtomicOp;

template <typename T>
T FloatAtomic(AtomicOp op, T old, T b) {
  switch (op) {
    case AtomicOp::kAdd:
      return old + b;
    case AtomicOp::kMin:
      return std::isnan(old) ? b : std::isnan(b) ? old : std::min(old, b);
    case AtomicOp::kMax:
      return std::isnan(old) ? b : std::isnan(b) ? old : std::max(old, b);
    default:
      return old;
  }
}

uint64_t SmallAtomic(AtomicOp op, const Format& format, uint64_t old, uint64_t b) {
  double x = Decode(format, static_cast<uint32_t>(old)),
         y = Decode(format, static_cast<uint32_t>(b));
  double r = op == AtomicOp::kAdd ? AddToOdd(x, y) : FloatAtomic(op, x, y);
  return Encode(format, r, Round::kNearest);
}

}  // namespace

uint64_t Core::AtomicResult(Type type, uint64_t old, uint64_t b, uint64_t c) {
  const unsigned width = ptx::BitsOf(type);
  const AtomicOp op = mods_.atomic;
  if (op == AtomicOp::kExch) return b;
  if (op == AtomicOp::kCas) return old == b ? c : old;
  switch (type) {
    case Type::kF32: {
      float r = FloatAtomic(op, AsFloat(old), AsFloat(b));
      return Bits(r);
    }
    case Type::kF64:
      return Bits(FloatAtomic(op, AsDouble(old), AsDouble(b)));
    case Type::kF16:
      return SmallAtomic(op, kHalf, old, b);
    case Type::kBf16:
      return SmallAtomic(op, kBfloat, old, b);
    case Type::kF16x2:
    case Type::kBf16x2: {
      const Format& format = type == Type::kF16x2 ? kHalf : kBfloat;
      return SmallAtomic(op, format, old & 0xffff, b & 0xffff) |
             SmallAtomic(op, format, old >> 16, b >> 16) << 16;
    }
    default:
      break;
  }
  const bool is_signed = ptx::IsSigned(type);
  const bool less = is_signed ? SignExtend(old, width) < SignExtend(b, width) : old < b;
  switch (op) {
    case AtomicOp::kAdd:
      return MaskBits(old + b, width);
    case AtomicOp::kAnd:
      return old & b;
    case AtomicOp::kOr:
      return old | b;
    case AtomicOp::kXor:
      return old ^ b;
    case AtomicOp::kMin:
      return less ? old : b;
    case AtomicOp::kMax:
      return less ? b : old;
    case AtomicOp::kInc:
      return old >= b ? 0 : old + 1;
    case AtomicOp::kDec:
      return old == 0 || old > b ? b : old - 1;
    default:
      Unsupported();
  }
}

void Core::AtomicAt(uint8_t* at, Type type, const Operand* dst, const Operand& b,
                    const Operand* c) {
  uint64_t old = 0;
  std::memcpy(&old, at, ptx::BytesOf(type));
  uint64_t result = AtomicResult(type, old, Read(b, type), c ? Read(*c, type) : 0);
  std::memcpy(at, &result, ptx::BytesOf(type));
  if (dst) Write(*dst, type, old);
}

bool Core::Atomic() {
  if (in_.opcode != Opcode::kAtom && in_.opcode != Opcode::kRed) return false;
  const Type type = in_.type();
  const uint64_t width = ptx::BytesOf(type), count = mods_.vector;
  const bool returns = in_.opcode == Opcode::kAtom;
  const size_t address = returns ? 1 : 0;
  uint8_t* at = Pointer(Op(address), mods_.space, width * count, width * count);
  if (type == Type::kB128) {
    Reg old;
    std::memcpy(&old.lo, at, 8);
    std::memcpy(&old.hi, at + 8, 8);
    Reg b = Register(Op(address + 1));
    Reg next = b;
    if (mods_.atomic == AtomicOp::kCas)
      next = old.lo == b.lo && old.hi == b.hi ? Register(Op(address + 2)) : old;
    else if (mods_.atomic != AtomicOp::kExch)
      Unsupported();
    std::memcpy(at, &next.lo, 8);
    std::memcpy(at + 8, &next.hi, 8);
    if (returns && Op(0).Is(Kind::kRegister)) Register(Op(0)) = old;
    return true;
  }
  // A last operand after the values may be a cache policy.
  const bool cas = mods_.atomic == AtomicOp::kCas;
  for (uint64_t i = 0; i < count; ++i) {
    const Operand& b = count > 1 ? Op(address + 1).elements.at(i) : Op(address + 1);
    const Operand* dst = !returns ? nullptr : count > 1 ? &Op(0).elements.at(i) : &Op(0);
    AtomicAt(at + i * width, type, dst, b, cas ? &Op(address + 2) : nullptr);
  }
  if (mods_.async)
    BytesHaveCome(in_.operands.back(), mods_.space, static_cast<int64_t>(width * count));
  return true;
}

}  // namespace farcall::cpu_device::ptx_interpreter
