// SPDX-License-Identifier: Apache-2.0
// setp, set, selp, slct.
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using ptx::BoolOp;
using ptx::Opcode;
using Predicate = llvm::CmpInst::Predicate;

namespace {

Predicate IntPredicate(ptx::Compare compare, bool is_signed) {
  switch (compare) {
    case ptx::Compare::kEq:
      return Predicate::ICMP_EQ;
    case ptx::Compare::kNe:
      return Predicate::ICMP_NE;
    case ptx::Compare::kLt:
      return is_signed ? Predicate::ICMP_SLT : Predicate::ICMP_ULT;
    case ptx::Compare::kLe:
      return is_signed ? Predicate::ICMP_SLE : Predicate::ICMP_ULE;
    case ptx::Compare::kGt:
      return is_signed ? Predicate::ICMP_SGT : Predicate::ICMP_UGT;
    case ptx::Compare::kGe:
      return is_signed ? Predicate::ICMP_SGE : Predicate::ICMP_UGE;
    case ptx::Compare::kLo:
      return Predicate::ICMP_ULT;
    case ptx::Compare::kLs:
      return Predicate::ICMP_ULE;
    case ptx::Compare::kHi:
      return Predicate::ICMP_UGT;
    case ptx::Compare::kHs:
      return Predicate::ICMP_UGE;
    default:
      return Predicate::BAD_ICMP_PREDICATE;
  }
}

Predicate FloatPredicate(ptx::Compare compare) {
  switch (compare) {
    case ptx::Compare::kEq:
      return Predicate::FCMP_OEQ;
    case ptx::Compare::kNe:
      return Predicate::FCMP_ONE;
    case ptx::Compare::kLt:
      return Predicate::FCMP_OLT;
    case ptx::Compare::kLe:
      return Predicate::FCMP_OLE;
    case ptx::Compare::kGt:
      return Predicate::FCMP_OGT;
    case ptx::Compare::kGe:
      return Predicate::FCMP_OGE;
    case ptx::Compare::kEqu:
      return Predicate::FCMP_UEQ;
    case ptx::Compare::kNeu:
      return Predicate::FCMP_UNE;
    case ptx::Compare::kLtu:
      return Predicate::FCMP_ULT;
    case ptx::Compare::kLeu:
      return Predicate::FCMP_ULE;
    case ptx::Compare::kGtu:
      return Predicate::FCMP_UGT;
    case ptx::Compare::kGeu:
      return Predicate::FCMP_UGE;
    case ptx::Compare::kNum:
      return Predicate::FCMP_ORD;
    case ptx::Compare::kNan:
      return Predicate::FCMP_UNO;
    default:
      return Predicate::BAD_FCMP_PREDICATE;
  }
}

}  // namespace

// `a` and `b` as Read gives them for a scalar `type`.
llvm::Value* Emitter::Compare(const Instruction& instruction, Type type, Value* a, Value* b) {
  if (!IsFloatType(type)) {
    Predicate predicate = IntPredicate(instruction.mods.compare, ptx::IsSigned(type));
    if (predicate == Predicate::BAD_ICMP_PREDICATE) return nullptr;
    return b_.CreateICmp(predicate, a, b);
  }
  Predicate predicate = FloatPredicate(instruction.mods.compare);
  if (predicate == Predicate::BAD_FCMP_PREDICATE) return nullptr;
  if (instruction.mods.ftz && type == Type::kF16) {
    a = FlushHalf(a);
    b = FlushHalf(b);
  }
  a = Widen(a, type);
  b = Widen(b, type);
  if (instruction.mods.ftz && type == Type::kF32) {
    a = FlushSubnormal(a);
    b = FlushSubnormal(b);
  }
  return b_.CreateFCmp(predicate, a, b);
}

llvm::Value* Emitter::CombineBool(BoolOp op, Value* a, Value* b) {
  switch (op) {
    case BoolOp::kAnd:
      return b_.CreateAnd(a, b);
    case BoolOp::kOr:
      return b_.CreateOr(a, b);
    case BoolOp::kXor:
      return b_.CreateXor(a, b);
    default:
      return a;
  }
}

bool Emitter::EmitSetp(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type type = instruction.type(), lane_type = LaneType(type);
  Value* a = Read(ops[1], type);
  Value* b = Read(ops[2], type);
  BoolOp op = instruction.mods.bool_op;
  Value* c = op == BoolOp::kNone ? nullptr : ReadPredicate(ops[3]);
  Value* results[2] = {};
  bool packed = lane_type != type;
  for (unsigned lane = 0; lane < (packed ? 2u : 1u); ++lane) {
    Value* x = packed ? Lane(a, lane, lane_type) : a;
    Value* y = packed ? Lane(b, lane, lane_type) : b;
    results[lane] = Compare(instruction, lane_type, x, y);
    if (!results[lane]) return Unsupported(instruction, "comparison");
  }
  // p = (a ? b) op c, q = !(a ? b) op c; packed: q is the high half
  if (!packed) results[1] = b_.CreateNot(results[0]);
  Write(ops[0], c ? CombineBool(op, results[0], c) : results[0]);
  if (!instruction.second_dst.Is(Operand::Kind::kNone))
    Write(instruction.second_dst, c ? CombineBool(op, results[1], c) : results[1]);
  return true;
}

bool Emitter::EmitSet(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Type to = instruction.type(0), type = instruction.type(1), lane_type = LaneType(type);
  Value* a = Read(ops[1], type);
  Value* b = Read(ops[2], type);
  BoolOp op = instruction.mods.bool_op;
  Value* c = op == BoolOp::kNone ? nullptr : ReadPredicate(ops[3]);
  bool packed = lane_type != type;
  Value* results[2] = {};
  for (unsigned lane = 0; lane < (packed ? 2u : 1u); ++lane) {
    Value* hit = Compare(instruction, lane_type, packed ? Lane(a, lane, lane_type) : a,
                         packed ? Lane(b, lane, lane_type) : b);
    if (!hit) return Unsupported(instruction, "comparison");
    if (c) hit = CombineBool(op, hit, c);
    Type to_lane = packed ? LaneType(to) : to;
    if (packed && to_lane == to) to_lane = Type::kU16;  // set.*.u32.f16x2: 0xffff per half
    uint64_t one = ~0ull;
    if (to_lane == Type::kF32) one = 0x3f800000;
    if (to_lane == Type::kF16) one = 0x3c00;
    if (to_lane == Type::kBf16) one = 0x3f80;
    unsigned bits = ptx::BitsOf(to_lane);
    results[lane] = b_.CreateSelect(hit, ConstInt(bits, one), ConstInt(bits, 0));
  }
  Write(ops[0], packed ? Pack(results[0], results[1]) : results[0], ptx::IsSigned(to));
  return true;
}

bool Emitter::EmitSelect(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  unsigned bits = ptx::BitsOf(instruction.type());
  Value* condition = nullptr;
  if (instruction.Is(Opcode::kSelp)) {
    condition = ReadPredicate(ops[3]);
  } else if (instruction.type(1) == Type::kF32) {
    Value* c = Read(ops[3], Type::kF32);
    if (instruction.mods.ftz) c = FlushSubnormal(c);
    condition =
        b_.CreateFCmpOGE(c, llvm::ConstantFP::get(b_.getFloatTy(), 0));  // -0 counts as >= 0
  } else {
    condition = b_.CreateICmpSGE(ReadInt(ops[3], 32), Int32(0));
  }
  Value* a = ReadInt(ops[1], bits, true);
  Value* b = ReadInt(ops[2], bits, true);
  llvm::Type* type = TypeOf(instruction.type());
  Write(ops[0], b_.CreateSelect(condition, Cast(a, type), Cast(b, type)));
  return true;
}

}  // namespace farcall::cpu_device::jit
