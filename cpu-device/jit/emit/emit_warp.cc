// SPDX-License-Identifier: Apache-2.0
// Barriers and warp operations: operands into the thread's context, suspend, read the result the
// scheduler left.
#include "cpu-device/jit/emit/emitter.h"
#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using ptx::BarrierOp;
using ptx::Opcode;

// A call that FormRegions knows: nothing moves over it, and there stays one of it.
llvm::CallInst* Emitter::CallMark(const char* name, llvm::Type* result,
                                  llvm::ArrayRef<Value*> arguments) {
  auto* call = llvm::cast<llvm::CallInst>(Call(name, result ? result : b_.getVoidTy(), arguments));
  call->addFnAttr(llvm::Attribute::Convergent);
  call->addFnAttr(llvm::Attribute::NoMerge);
  call->addFnAttr(llvm::Attribute::NoDuplicate);
  return call;
}

Emitter::WarpResult Emitter::WarpOperation(Wait wait, const WarpOperands& operands) {
  if (form_ == CodeForm::kRegions) {
    auto given = [&](Value* value) { return value ? value : Int32(0); };
    Value* result = CallMark(
        kMarkWarp, b_.getInt64Ty(),
        {Int32(static_cast<uint32_t>(wait)), operands.value ? operands.value : Int64(0),
         given(operands.b), given(operands.c),
         operands.predicate ? Resize(operands.predicate, 32) : Int32(0), given(operands.mask)});
    Value* predicate = b_.CreateTrunc(b_.CreateLShr(result, 32), b_.getInt1Ty());
    return {b_.CreateZExt(b_.CreateTrunc(result, b_.getInt32Ty()), b_.getInt64Ty()), predicate};
  }
  auto set = [&](size_t offset, Value* value) {
    if (value) SetField(thread_, offset, value);
  };
  set(offsetof(ThreadContext, value), operands.value);
  set(offsetof(ThreadContext, b), operands.b);
  set(offsetof(ThreadContext, c), operands.c);
  if (operands.predicate) set(offsetof(ThreadContext, predicate), Resize(operands.predicate, 32));
  set(offsetof(ThreadContext, mask), operands.mask);
  Suspend(wait);
  Value* predicate = ThreadField(offsetof(ThreadContext, predicate), b_.getInt32Ty(), false);
  return {ThreadField(offsetof(ThreadContext, value), b_.getInt64Ty(), false),
          b_.CreateICmpNE(predicate, Int32(0))};
}

// Of threads that are in several places of a kLockstep those go on first that have come less far,
// so that they meet again behind branches and loops: code is emitted in the order of the text, with
// functions where they are called.
void Emitter::Suspend(Wait wait) {
  // The warp in step is less than the block together.
  if (form_ == CodeForm::kRegions && wait == Wait::kLockstep) {
    CallMark(kMarkMeet);
    return;
  }
  if (form_ == CodeForm::kRegions) {
    Fail(ExecStatus::kUnsupported, "a thread waits where regions cannot be formed");
    return;
  }
  SetField(thread_, offsetof(ThreadContext, wait), Int32(static_cast<uint32_t>(wait)));
  if (wait == Wait::kLockstep) SetField(thread_, offsetof(ThreadContext, b), Int32(++places_));
  Value* none = llvm::ConstantTokenNone::get(context_);
  Value* state = Intrinsic(llvm::Intrinsic::coro_suspend, {}, {none, b_.getFalse()});
  BasicBlock* resumed = BasicBlock::Create(context_, "resumed", llvm_function_);
  // 1 would destroy the coroutine, which nobody does: frames are dropped with their block.
  llvm::SwitchInst* choice = b_.CreateSwitch(state, suspend_block_, 1);
  choice->addCase(b_.getInt8(0), resumed);
  b_.SetInsertPoint(resumed);
}

void Emitter::WarpSync(Value* mask) {
  const auto* number = llvm::dyn_cast<llvm::ConstantInt>(mask);
  if (form_ != CodeForm::kRegions) {
    SetField(thread_, offsetof(ThreadContext, mask), mask);
    Suspend(Wait::kWarpSync);
  } else if (number && number->getZExtValue() == ~uint32_t{0}) {
    CallMark(kMarkMeet);
  } else {
    WarpOperands in;
    in.mask = mask;
    WarpOperation(Wait::kWarpSync, in);
  }
}

void Emitter::Yield() {
  Suspend(Wait::kYield);
}

bool Emitter::EmitBarrier(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  if (mods.barrier == BarrierOp::kWarpSync) {
    WarpSync(ReadInt(ops[0], 32));
    return true;
  }
  if (mods.cluster) return EmitClusterBarrier(instruction);
  bool reduces = mods.barrier == BarrierOp::kRed;
  size_t first = reduces ? 1 : 0;
  if (ops.size() <= first) return Unsupported(instruction);
  size_t count_at = first + 1;
  // bar.red d, a{, b}, {!}c: the predicate is last
  bool has_count = ops.size() > count_at + (reduces ? 1 : 0);
  // Of the block's own threads, all of them.
  const bool whole = mods.barrier != BarrierOp::kArrive && !has_count &&
                     ops[first].Is(Operand::Kind::kInteger) &&
                     static_cast<uint64_t>(ops[first].value) < kBarrierCount;
  if (form_ == CodeForm::kRegions && whole && !reduces) {
    CallMark(kMarkMeet);
    return true;
  }
  SetField(thread_, offsetof(ThreadContext, a), ReadInt(ops[first], 32));
  SetField(thread_, offsetof(ThreadContext, b), has_count ? ReadInt(ops[count_at], 32) : Int32(0));
  if (mods.barrier == BarrierOp::kArrive) {
    Suspend(Wait::kBarrierArrive);
    return true;
  }
  BarrierReduce reduce = BarrierReduce::kNone;
  if (reduces) {
    if (instruction.Has("popc"))
      reduce = BarrierReduce::kPopc;
    else if (instruction.Has("and"))
      reduce = BarrierReduce::kAnd;
    else if (instruction.Has("or"))
      reduce = BarrierReduce::kOr;
    else
      return Unsupported(instruction);
    Value* predicate = ReadPredicate(ops.back());
    if (form_ == CodeForm::kRegions && whole) {
      Value* result = CallMark(kMarkReduce, b_.getInt32Ty(),
                               {Int32(static_cast<uint32_t>(reduce)), Resize(predicate, 32)});
      const bool counts = reduce == BarrierReduce::kPopc;
      Write(ops[0], counts ? result : b_.CreateICmpNE(result, Int32(0)));
      return true;
    }
    SetField(thread_, offsetof(ThreadContext, value), Resize(predicate, 64));
  }
  SetField(thread_, offsetof(ThreadContext, c), Int32(static_cast<uint32_t>(reduce)));
  Suspend(Wait::kBarrier);
  if (reduces) {
    Value* result = ThreadField(offsetof(ThreadContext, value), b_.getInt64Ty(), false);
    bool to_predicate = reduce != BarrierReduce::kPopc;
    Write(ops[0], to_predicate ? b_.CreateICmpNE(result, Int64(0)) : Resize(result, 32));
  }
  return true;
}

// Long: a flat switch over the operations of a warp.
bool Emitter::EmitWarp(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (outlined_) return Unsupported(instruction, "inside a function that is not inlined");
  WarpOperands in;
  // Forms without .sync: whoever is there. Told apart by place, as the lanes of one execution share
  // it.
  auto set_mask = [&](size_t operand) {
    if (mods.sync && operand < ops.size()) {
      in.mask = ReadInt(ops[operand], 32);
      return true;
    }
    return false;
  };
  Wait wait = Wait::kActivemask;
  switch (instruction.opcode) {
    case Opcode::kActivemask:
      in.mask = Int32(form_ == CodeForm::kRegions ? ~0u : 0);
      in.b = Int32(++site_);
      break;
    case Opcode::kElect:
      set_mask(1);
      wait = Wait::kElect;
      break;
    case Opcode::kShfl:
      if (ptx::BitsOf(instruction.type()) != 32) return Unsupported(instruction);
      in.value = Resize(ReadInt(ops[1], 32), 64);
      in.b = ReadInt(ops[2], 32);
      in.c = ReadInt(ops[3], 32);
      if (!set_mask(4)) return Unsupported(instruction, "form without .sync");
      switch (mods.shuffle) {
        case ptx::ShuffleMode::kUp:
          wait = Wait::kShflUp;
          break;
        case ptx::ShuffleMode::kDown:
          wait = Wait::kShflDown;
          break;
        case ptx::ShuffleMode::kBfly:
          wait = Wait::kShflBfly;
          break;
        case ptx::ShuffleMode::kIdx:
          wait = Wait::kShflIdx;
          break;
        default:
          return Unsupported(instruction);
      }
      break;
    case Opcode::kVote:
      in.predicate = ReadPredicate(ops[1]);
      if (!set_mask(2)) return Unsupported(instruction, "form without .sync");
      switch (mods.vote) {
        case ptx::VoteMode::kAll:
          wait = Wait::kVoteAll;
          break;
        case ptx::VoteMode::kAny:
          wait = Wait::kVoteAny;
          break;
        case ptx::VoteMode::kUni:
          wait = Wait::kVoteUni;
          break;
        case ptx::VoteMode::kBallot:
          wait = Wait::kVoteBallot;
          break;
        default:
          return Unsupported(instruction);
      }
      break;
    case Opcode::kMatch:
      in.value = Resize(ReadInt(ops[1], ptx::BitsOf(instruction.type())), 64);
      if (!set_mask(2)) return Unsupported(instruction, "form without .sync");
      wait = mods.vote == ptx::VoteMode::kAll ? Wait::kMatchAll : Wait::kMatchAny;
      break;
    case Opcode::kRedux: {
      in.value = Resize(ReadInt(ops[1], 32), 64);
      if (!set_mask(2)) return Unsupported(instruction);
      bool is_signed = ptx::IsSigned(instruction.type()),
           is_float = instruction.type() == Type::kF32;
      in.c = Int32(is_float ? (mods.abs ? 1u : 0u) | (mods.nan ? 2u : 0u) : 0u);
      switch (mods.atomic) {
        case ptx::AtomicOp::kAdd:
          wait = Wait::kReduxAdd;
          break;
        case ptx::AtomicOp::kMin:
          wait = is_float ? Wait::kReduxMinF : is_signed ? Wait::kReduxMinS : Wait::kReduxMinU;
          break;
        case ptx::AtomicOp::kMax:
          wait = is_float ? Wait::kReduxMaxF : is_signed ? Wait::kReduxMaxS : Wait::kReduxMaxU;
          break;
        case ptx::AtomicOp::kAnd:
          wait = Wait::kReduxAnd;
          break;
        case ptx::AtomicOp::kOr:
          wait = Wait::kReduxOr;
          break;
        case ptx::AtomicOp::kXor:
          wait = Wait::kReduxXor;
          break;
        default:
          return Unsupported(instruction);
      }
      break;
    }
    default:
      return Unsupported(instruction);
  }
  const auto [result, predicate] = WarpOperation(wait, in);
  if (instruction.Is(Opcode::kVote) && mods.vote != ptx::VoteMode::kBallot)
    Write(ops[0], b_.CreateICmpNE(result, Int64(0)));
  else
    Write(ops[0], Resize(result, 32));
  if (!instruction.second_dst.Is(Operand::Kind::kNone)) Write(instruction.second_dst, predicate);
  return true;
}

}  // namespace farcall::cpu_device::jit
