// SPDX-License-Identifier: Apache-2.0
// atom and red. On .shared no bus lock: a block runs on one host thread at a time.
#include <llvm/IR/Intrinsics.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::AtomicOrdering;
using llvm::AtomicRMWInst;
using llvm::BasicBlock;
using ptx::AtomicOp;
using ptx::Opcode;
using ptx::Space;
namespace intrinsic = llvm::Intrinsic;

// The new value of memory; null if the pair of operation and type does not exist.
llvm::Value* Emitter::AtomicApply(const Instruction& instruction, Type type, Value* old,
                                  Value* operand, Value* compare_with) {
  bool is_signed = ptx::IsSigned(type);
  unsigned bits = ptx::BitsOf(type);
  AtomicOp op = instruction.mods.atomic;
  Type lane_type = LaneType(type);
  if (lane_type != type) {
    Value* low = AtomicApply(instruction, lane_type, Lane(old, 0, lane_type),
                             Lane(operand, 0, lane_type), nullptr);
    Value* high = AtomicApply(instruction, lane_type, Lane(old, 1, lane_type),
                              Lane(operand, 1, lane_type), nullptr);
    return low && high ? Pack(low, high) : nullptr;
  }
  if (IsFloatType(type) && op != AtomicOp::kExch && op != AtomicOp::kCas) {
    Value* a = Widen(Cast(old, TypeOf(type)), type);
    Value* b = Widen(Cast(operand, TypeOf(type)), type);
    switch (op) {
      case AtomicOp::kAdd:
        return AsInt(Narrow(b_.CreateFAdd(a, b), type));
      case AtomicOp::kMin:
        return AsInt(Narrow(FloatMinMax(a, b, false, instruction.mods.nan, false), type));
      case AtomicOp::kMax:
        return AsInt(Narrow(FloatMinMax(a, b, true, instruction.mods.nan, false), type));
      default:
        return nullptr;
    }
  }
  switch (op) {
    case AtomicOp::kAdd:
      return b_.CreateAdd(old, operand);
    case AtomicOp::kMin:
      return b_.CreateBinaryIntrinsic(is_signed ? intrinsic::smin : intrinsic::umin, old, operand);
    case AtomicOp::kMax:
      return b_.CreateBinaryIntrinsic(is_signed ? intrinsic::smax : intrinsic::umax, old, operand);
    case AtomicOp::kAnd:
      return b_.CreateAnd(old, operand);
    case AtomicOp::kOr:
      return b_.CreateOr(old, operand);
    case AtomicOp::kXor:
      return b_.CreateXor(old, operand);
    case AtomicOp::kExch:
      return operand;
    case AtomicOp::kCas:
      return b_.CreateSelect(b_.CreateICmpEQ(old, operand), compare_with, old);
    case AtomicOp::kInc: {
      Value* wrap = b_.CreateICmpUGE(old, operand);
      return b_.CreateSelect(wrap, ConstInt(bits, 0), b_.CreateAdd(old, ConstInt(bits, 1)));
    }
    case AtomicOp::kDec: {
      Value* wrap =
          b_.CreateOr(b_.CreateICmpEQ(old, ConstInt(bits, 0)), b_.CreateICmpUGT(old, operand));
      return b_.CreateSelect(wrap, operand, b_.CreateSub(old, ConstInt(bits, 1)));
    }
    default:
      return nullptr;
  }
}

// One scalar or packed element at `pointer`; returns the old bits. `b`, `c`: operands as integers
// (cas: compare, swap).
llvm::Value* Emitter::AtomicLane(const Instruction& instruction, Value* pointer, Value* b, Value* c,
                                 bool own) {
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type);
  llvm::Align align(bits / 8);
  AtomicOp op = instruction.mods.atomic;
  if (own) {
    Value* old = b_.CreateAlignedLoad(IntOf(bits), pointer, align);
    Value* fresh = AtomicApply(instruction, type, old, b, c);
    if (!fresh) return nullptr;
    b_.CreateAlignedStore(fresh, pointer, align);
    return old;
  }
  bool is_float = IsFloatType(type), is_signed = ptx::IsSigned(type);
  auto ordering = AtomicOrdering::AcquireRelease;
  if (op == AtomicOp::kCas) {
    Value* pair = b_.CreateAtomicCmpXchg(pointer, b, c, align, ordering, AtomicOrdering::Acquire);
    return b_.CreateExtractValue(pair, 0);
  }
  auto rmw = [&](AtomicRMWInst::BinOp kind, Value* operand) {
    return b_.CreateAtomicRMW(kind, pointer, operand, align, ordering);
  };
  if (op == AtomicOp::kExch && bits <= 64) return rmw(AtomicRMWInst::Xchg, b);
  if (!is_float && bits >= 16 && bits <= 64) {
    switch (op) {
      case AtomicOp::kAdd:
        return rmw(AtomicRMWInst::Add, b);
      case AtomicOp::kMin:
        return rmw(is_signed ? AtomicRMWInst::Min : AtomicRMWInst::UMin, b);
      case AtomicOp::kMax:
        return rmw(is_signed ? AtomicRMWInst::Max : AtomicRMWInst::UMax, b);
      case AtomicOp::kAnd:
        return rmw(AtomicRMWInst::And, b);
      case AtomicOp::kOr:
        return rmw(AtomicRMWInst::Or, b);
      case AtomicOp::kXor:
        return rmw(AtomicRMWInst::Xor, b);
      default:
        break;
    }
  }
  // Compare and swap until nobody came between.
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* loop = BasicBlock::Create(context_, "atomic", llvm_function_);
  BasicBlock* done = BasicBlock::Create(context_, "atomic.done", llvm_function_);
  llvm::LoadInst* first = b_.CreateAlignedLoad(IntOf(bits), pointer, align);
  if (bits <= 64)
    first->setAtomic(AtomicOrdering::Monotonic);
  else
    first->setVolatile(true);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* seen = b_.CreatePHI(IntOf(bits), 2);
  seen->addIncoming(first, before);
  Value* fresh = AtomicApply(instruction, type, seen, b, c);
  if (!fresh) return nullptr;
  Value* pair =
      b_.CreateAtomicCmpXchg(pointer, seen, fresh, align, ordering, AtomicOrdering::Acquire);
  seen->addIncoming(b_.CreateExtractValue(pair, 0), b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateExtractValue(pair, 1), done, loop);
  b_.SetInsertPoint(done);
  return seen;
}

bool Emitter::EmitAtomic(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type), count = mods.vector;
  if (bits < 16 || mods.atomic == AtomicOp::kNone) return Unsupported(instruction);
  bool has_result = instruction.Is(Opcode::kAtom);
  size_t at = has_result ? 1 : 0;
  Space space = SpaceOf(ops[at], mods.space);
  bool own = space == Space::kShared || space == Space::kSharedCluster;
  Value* pointer = Address(instruction, ops[at], space, bits / 8 * count);
  if (!pointer) return false;
  bool cas = mods.atomic == AtomicOp::kCas;
  if (ops.size() < at + (cas ? 3 : 2)) return Unsupported(instruction, "operand count");
  for (unsigned i = 0; i < count; ++i) {
    auto element = [&](const Operand& operand) -> const Operand& {
      return count > 1 && i < operand.elements.size() ? operand.elements[i] : operand;
    };
    Value* b = ReadInt(element(ops[at + 1]), bits);
    Value* c = cas ? ReadInt(element(ops[at + 2]), bits) : nullptr;
    Value* place = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), pointer, i * bits / 8);
    Value* old = AtomicLane(instruction, place, b, c, own);
    if (!old) return Unsupported(instruction);
    if (has_result) Write(element(ops[0]), old, ptx::IsSigned(type));
  }
  if (mods.async) return EmitBytesHaveCome(instruction, ops.back(), space, Int64(bits / 8 * count));
  return true;
}

}  // namespace farcall::cpu_device::jit
