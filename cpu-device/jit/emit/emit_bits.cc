// SPDX-License-Identifier: Apache-2.0
// Logic, shifts, bit fields, counts, permutes.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::Opcode;
using ptx::ShiftMode;
namespace intrinsic = llvm::Intrinsic;

bool Emitter::EmitLogic(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  unsigned bits = ptx::BitsOf(instruction.type());
  Value* a = ReadInt(ops[1], bits);
  Value* result = nullptr;
  switch (instruction.opcode) {
    case Opcode::kAnd:
      result = b_.CreateAnd(a, ReadInt(ops[2], bits));
      break;
    case Opcode::kOr:
      result = b_.CreateOr(a, ReadInt(ops[2], bits));
      break;
    case Opcode::kXor:
      result = b_.CreateXor(a, ReadInt(ops[2], bits));
      break;
    case Opcode::kNot:
      result = b_.CreateNot(a);
      break;
    default:
      result = Resize(b_.CreateICmpEQ(a, ConstInt(bits, 0)), bits);  // cnot
  }
  Write(ops[0], result);
  return true;
}

// Amounts past the width clamp: zero, or the sign.
bool Emitter::EmitShift(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  unsigned bits = ptx::BitsOf(instruction.type());
  bool is_signed = ptx::IsSigned(instruction.type());
  Value* a = ReadInt(ops[1], bits, is_signed);
  Value* amount = ReadInt(ops[2], 32);
  Value* large = b_.CreateICmpUGE(amount, Int32(bits));
  Value* result = nullptr;
  if (is_signed && instruction.Is(Opcode::kShr)) {
    Value* clamped = b_.CreateSelect(large, Int32(bits - 1), amount);
    result = b_.CreateAShr(a, Resize(clamped, bits));
  } else {
    Value* safe = Resize(b_.CreateSelect(large, Int32(0), amount), bits);
    Value* shifted = instruction.Is(Opcode::kShl) ? b_.CreateShl(a, safe) : b_.CreateLShr(a, safe);
    result = b_.CreateSelect(large, ConstInt(bits, 0), shifted);
  }
  Write(ops[0], result, is_signed);
  return true;
}

bool Emitter::EmitFunnelShift(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* low = Resize(ReadInt(ops[1], 32), 64);
  Value* high = Resize(ReadInt(ops[2], 32), 64);
  Value* amount = ReadInt(ops[3], 32);
  amount = instruction.mods.shift_mode == ShiftMode::kWrap
               ? b_.CreateAnd(amount, Int32(31))
               : b_.CreateBinaryIntrinsic(intrinsic::umin, amount, Int32(32));
  Value* both = b_.CreateOr(b_.CreateShl(high, 32), low);
  Value* wide = Resize(amount, 64);
  Value* result = instruction.mods.shift_left ? b_.CreateLShr(b_.CreateShl(both, wide), 32)
                                              : b_.CreateLShr(both, wide);
  Write(ops[0], Resize(result, 32));
  return true;
}

bool Emitter::EmitBitCount(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type);
  if (instruction.Is(Opcode::kFns)) {
    Write(ops[0], Call("fc_rt_fns", b_.getInt32Ty(),
                       {ReadInt(ops[1], 32), ReadInt(ops[2], 32), ReadInt(ops[3], 32)}, true));
    return true;
  }
  Value* a = ReadInt(ops[1], bits);
  switch (instruction.opcode) {
    case Opcode::kPopc:
      Write(ops[0], Resize(b_.CreateUnaryIntrinsic(intrinsic::ctpop, a), 32));
      return true;
    case Opcode::kClz:
      Write(ops[0], Resize(b_.CreateBinaryIntrinsic(intrinsic::ctlz, a, b_.getFalse()), 32));
      return true;
    case Opcode::kBrev:
      Write(ops[0], b_.CreateUnaryIntrinsic(intrinsic::bitreverse, a));
      return true;
    default:
      break;
  }
  // bfind: position of the most significant bit that is not a sign bit
  if (ptx::IsSigned(type)) a = b_.CreateXor(a, b_.CreateAShr(a, bits - 1));
  Value* zeros = Resize(b_.CreateBinaryIntrinsic(intrinsic::ctlz, a, b_.getFalse()), 32);
  Value* position = instruction.mods.shiftamt ? zeros : b_.CreateSub(Int32(bits - 1), zeros);
  Write(ops[0], b_.CreateSelect(b_.CreateICmpEQ(a, ConstInt(bits, 0)), Int32(~0u), position));
  return true;
}

// Done in twice the width, where no shift amount is out of range.
bool Emitter::EmitBitField(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  unsigned bits = ptx::BitsOf(instruction.type()), wide = 2 * bits;
  bool insert = instruction.Is(Opcode::kBfi), is_signed = ptx::IsSigned(instruction.type());
  auto clamped = [&](const Operand& operand, unsigned limit) {
    Value* value = b_.CreateAnd(ReadInt(operand, 32), Int32(255));
    return Resize(b_.CreateBinaryIntrinsic(intrinsic::umin, value, Int32(limit)), wide);
  };
  Value* a = Resize(ReadInt(ops[1], bits), wide, is_signed && !insert);
  if (!insert) {
    Value* position = clamped(ops[2], wide - 1);
    Value* length = clamped(ops[3], bits);
    Value* empty = b_.CreateICmpEQ(length, ConstInt(wide, 0));
    Value* shifted = is_signed ? b_.CreateAShr(a, position) : b_.CreateLShr(a, position);
    Value* unused =
        b_.CreateSelect(empty, ConstInt(wide, 0), b_.CreateSub(ConstInt(wide, wide), length));
    Value* top = b_.CreateShl(shifted, unused);
    Value* field = is_signed ? b_.CreateAShr(top, unused) : b_.CreateLShr(top, unused);
    Write(ops[0], Resize(b_.CreateSelect(empty, ConstInt(wide, 0), field), bits), is_signed);
    return true;
  }
  Value* b = Resize(ReadInt(ops[2], bits), wide);
  Value* position = clamped(ops[3], bits);
  Value* length = clamped(ops[4], bits);
  Value* ones = b_.CreateSub(b_.CreateShl(ConstInt(wide, 1), length), ConstInt(wide, 1));
  Value* mask = b_.CreateShl(ones, position);
  Value* field = b_.CreateAnd(b_.CreateShl(a, position), mask);
  Write(ops[0], Resize(b_.CreateOr(b_.CreateAnd(b, b_.CreateNot(mask)), field), bits));
  return true;
}

// bmsk d, a, b: `b` ones from bit `a` up.
bool Emitter::EmitBmsk(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* position = ReadInt(ops[1], 32);
  Value* width = ReadInt(ops[2], 32);
  if (instruction.mods.shift_mode == ShiftMode::kWrap) {
    position = b_.CreateAnd(position, Int32(31));
    width = b_.CreateAnd(width, Int32(31));
  } else {
    position = b_.CreateBinaryIntrinsic(intrinsic::umin, position, Int32(32));
    width = b_.CreateBinaryIntrinsic(intrinsic::umin, width, Int32(32));
  }
  Value* ones = b_.CreateSub(b_.CreateShl(Int64(1), Resize(width, 64)), Int64(1));
  Write(ops[0], Resize(b_.CreateShl(ones, Resize(position, 64)), 32));
  return true;
}

// szext d, a, b: the low b bits of a, extended.
bool Emitter::EmitSzext(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  bool is_signed = ptx::IsSigned(instruction.type());
  Value* a = Resize(ReadInt(ops[1], 32), 64);
  Value* width = ReadInt(ops[2], 32);
  width = instruction.mods.shift_mode == ShiftMode::kWrap
              ? b_.CreateAnd(width, Int32(31))
              : b_.CreateBinaryIntrinsic(intrinsic::umin, width, Int32(32));
  Value* empty = b_.CreateICmpEQ(width, Int32(0));
  Value* unused = b_.CreateSub(Int64(64), Resize(b_.CreateSelect(empty, Int32(1), width), 64));
  Value* top = b_.CreateShl(a, unused);
  Value* field = is_signed ? b_.CreateAShr(top, unused) : b_.CreateLShr(top, unused);
  Write(ops[0], b_.CreateSelect(empty, Int32(0), Resize(field, 32)));
  return true;
}

bool Emitter::EmitPermute(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* a = Resize(ReadInt(ops[1], 32), 64);
  Value* b = Resize(ReadInt(ops[2], 32), 64);
  Value* bytes = b_.CreateOr(b_.CreateShl(b, 32), a);
  Value* selector = ReadInt(ops[3], 32);
  if (instruction.mods.permute != ptx::PermuteMode::kNone) {
    // The special modes name four selectors by two bits: a table of the equivalent generic ones.
    static constexpr uint16_t kTable[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
        {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
        {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
        {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
        {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
        {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
    };
    const uint16_t* row = kTable[static_cast<int>(instruction.mods.permute) - 1];
    Value* which = b_.CreateAnd(selector, Int32(3));
    selector = Int32(row[0]);
    for (uint32_t i = 1; i < 4; ++i)
      selector = b_.CreateSelect(b_.CreateICmpEQ(which, Int32(i)), Int32(row[i]), selector);
  }
  Value* result = Int32(0);
  for (unsigned i = 0; i < 4; ++i) {
    Value* nibble = b_.CreateAnd(b_.CreateLShr(selector, 4 * i), Int32(15));
    Value* shift = Resize(b_.CreateShl(b_.CreateAnd(nibble, Int32(7)), 3), 64);
    Value* byte = Resize(b_.CreateLShr(bytes, shift), 8);
    Value* sign = b_.CreateAShr(byte, 7);
    Value* replicate = b_.CreateICmpUGE(nibble, Int32(8));
    byte = b_.CreateSelect(replicate, sign, byte);
    result = b_.CreateOr(result, b_.CreateShl(Resize(byte, 32), 8 * i));
  }
  Write(ops[0], result);
  return true;
}

bool Emitter::EmitLop3(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  if (ops.size() < 5 || !ops[4].Is(Operand::Kind::kInteger))
    return Unsupported(instruction, "no table");
  Value* in[3] = {ReadInt(ops[1], 32), ReadInt(ops[2], 32), ReadInt(ops[3], 32)};
  auto table = static_cast<unsigned>(ops[4].value & 255);
  // Shannon expansion on a, b, c; the optimiser shrinks it to a few operations.
  auto leaf = [&](unsigned two) -> Value* {  // as a function of c
    switch (two) {
      case 0:
        return Int32(0);
      case 1:
        return b_.CreateNot(in[2]);
      case 2:
        return in[2];
      default:
        return Int32(~0u);
    }
  };
  auto choose = [&](Value* control, Value* if_one, Value* if_zero) -> Value* {
    if (if_one == if_zero) return if_one;
    return b_.CreateOr(b_.CreateAnd(control, if_one), b_.CreateAnd(b_.CreateNot(control), if_zero));
  };
  auto half = [&](unsigned four) { return choose(in[1], leaf(four >> 2 & 3), leaf(four & 3)); };
  Value* result = choose(in[0], half(table >> 4), half(table & 15));
  if (instruction.mods.bool_op != ptx::BoolOp::kNone) {
    if (ops.size() < 6) return Unsupported(instruction, "no predicate");
    Value* nonzero = b_.CreateICmpNE(result, Int32(0));
    Write(instruction.second_dst.Is(Operand::Kind::kNone) ? ops[0] : instruction.second_dst,
          CombineBool(instruction.mods.bool_op, nonzero, ReadPredicate(ops[5])));
    if (instruction.second_dst.Is(Operand::Kind::kNone)) return true;
  }
  Write(ops[0], result);
  return true;
}

}  // namespace farcall::cpu_device::jit
