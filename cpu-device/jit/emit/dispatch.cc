// SPDX-License-Identifier: Apache-2.0
// From opcode to the function that emits it; guards.
#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using ptx::Opcode;

bool Emitter::Emit(const Instruction& instruction) {
  bool own_guard = instruction.guard != ptx::kNoRegister && !instruction.Is(Opcode::kBra);
  BasicBlock* after = nullptr;
  if (own_guard) {
    Value* condition = ReadRegister(instruction.guard);
    if (instruction.guard_negated) condition = b_.CreateNot(condition);
    BasicBlock* then = BasicBlock::Create(context_, "then", llvm_function_);
    after = BasicBlock::Create(context_, "after", llvm_function_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
  }
#ifdef FARCALL_PTXJIT_MUTATIONS
  const bool emitted = DispatchMutated(instruction);
#else
  const bool emitted = Dispatch(instruction);
#endif
  if (!emitted || !error_.empty()) {
    if (error_.empty()) Unsupported(instruction);
    return false;
  }
  if (after) {
    if (!b_.GetInsertBlock()->getTerminator()) b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }
  return true;
}

// Long: a flat switch over PTX's operations, which is read by name.
bool Emitter::Dispatch(const Instruction& instruction) {
  Type type = instruction.type();
  switch (instruction.opcode) {
    case Opcode::kAdd:
    case Opcode::kSub:
    case Opcode::kMul:
    case Opcode::kMad:
    case Opcode::kDiv:
    case Opcode::kAbs:
    case Opcode::kNeg:
    case Opcode::kMin:
    case Opcode::kMax:
      return IsFloatType(type) ? EmitFloat(instruction) : EmitInteger(instruction);
    case Opcode::kFma:
    case Opcode::kRcp:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kEx2:
    case Opcode::kLg2:
    case Opcode::kTanh:
      return EmitFloat(instruction);
    case Opcode::kTestp:
      return EmitTestp(instruction);
    case Opcode::kCopysign:
      return EmitCopysign(instruction);
    case Opcode::kRem:
    case Opcode::kSad:
    case Opcode::kMul24:
    case Opcode::kMad24:
    case Opcode::kAddc:
    case Opcode::kSubc:
    case Opcode::kMadc:
    case Opcode::kDp4a:
    case Opcode::kDp2a:
      return EmitInteger(instruction);
    case Opcode::kAnd:
    case Opcode::kOr:
    case Opcode::kXor:
    case Opcode::kNot:
    case Opcode::kCnot:
      return EmitLogic(instruction);
    case Opcode::kShl:
    case Opcode::kShr:
      return EmitShift(instruction);
    case Opcode::kVabsdiff:
    case Opcode::kVabsdiff2:
    case Opcode::kVabsdiff4:
    case Opcode::kVadd:
    case Opcode::kVadd2:
    case Opcode::kVadd4:
    case Opcode::kVavrg2:
    case Opcode::kVavrg4:
    case Opcode::kVmax:
    case Opcode::kVmax2:
    case Opcode::kVmax4:
    case Opcode::kVmin:
    case Opcode::kVmin2:
    case Opcode::kVmin4:
    case Opcode::kVset:
    case Opcode::kVset2:
    case Opcode::kVset4:
    case Opcode::kVshl:
    case Opcode::kVshr:
    case Opcode::kVsub:
    case Opcode::kVsub2:
    case Opcode::kVsub4:
      return EmitVideo(instruction);
    case Opcode::kShf:
      return EmitFunnelShift(instruction);
    case Opcode::kPopc:
    case Opcode::kClz:
    case Opcode::kBrev:
    case Opcode::kBfind:
    case Opcode::kFns:
      return EmitBitCount(instruction);
    case Opcode::kBfe:
    case Opcode::kBfi:
      return EmitBitField(instruction);
    case Opcode::kBmsk:
      return EmitBmsk(instruction);
    case Opcode::kSzext:
      return EmitSzext(instruction);
    case Opcode::kPrmt:
      return EmitPermute(instruction);
    case Opcode::kLop3:
      return EmitLop3(instruction);
    case Opcode::kSetp:
      return EmitSetp(instruction);
    case Opcode::kSet:
      return EmitSet(instruction);
    case Opcode::kSelp:
    case Opcode::kSlct:
      return EmitSelect(instruction);
    case Opcode::kCvt:
      return EmitConvert(instruction);
    case Opcode::kMov:
      return EmitMove(instruction);
    case Opcode::kLd:
    case Opcode::kLdu:
      return EmitLoad(instruction);
    case Opcode::kSt:
      return EmitStore(instruction);
    case Opcode::kCp:
      return EmitAsyncCopy(instruction);
    case Opcode::kMbarrier:
      return EmitMbarrier(instruction);
    case Opcode::kMapa:
    case Opcode::kGetctarank:
      return EmitClusterAddress(instruction);
    case Opcode::kCvta:
      return EmitCvta(instruction);
    case Opcode::kIsspacep:
      return EmitIsspacep(instruction);
    case Opcode::kAlloca:
    case Opcode::kStacksave:
    case Opcode::kStackrestore:
      return EmitAlloca(instruction);
    case Opcode::kTex:
    case Opcode::kTld4:
      return EmitTexture(instruction);
    case Opcode::kTensormap:
      return EmitTensorMap(instruction);
    case Opcode::kSuld:
    case Opcode::kSust:
      return EmitSurface(instruction);
    case Opcode::kTxq:
    case Opcode::kSuq:
      return EmitTextureQuery(instruction);
    case Opcode::kAtom:
    case Opcode::kRed:
      return EmitAtomic(instruction);
    case Opcode::kBra:
      return EmitBranch(instruction);
    case Opcode::kBrx:
      return EmitBranchIndexed(instruction);
    case Opcode::kCall:
      return EmitCall(instruction);
    case Opcode::kRet:
      b_.CreateBr(scope_->return_block);
      return true;
    case Opcode::kExit:
      EmitExit();
      return true;
    case Opcode::kTrap:
      Call("fc_rt_trap", b_.getVoidTy(), {Int32(instruction.line)});
      Unreachable();
      return true;
    case Opcode::kBar:
    case Opcode::kBarrier:
      return EmitBarrier(instruction);
    case Opcode::kShfl:
    case Opcode::kVote:
    case Opcode::kMatch:
    case Opcode::kRedux:
    case Opcode::kActivemask:
    case Opcode::kElect:
      return EmitWarp(instruction);
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix:
      return EmitMatrix(instruction);
    case Opcode::kMma:
      return EmitMma(instruction);
    case Opcode::kWmma:
      return instruction.mods.matrix_op == ptx::MatrixOp::kMma ? EmitMma(instruction)
                                                               : EmitWmmaMemory(instruction);
    case Opcode::kMembar:
    case Opcode::kFence:
      b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
      return true;
    case Opcode::kNanosleep:
      if (CanSuspend()) Yield();
      return true;
    // Hints without an effect a program can observe.
    case Opcode::kPrefetch:
    case Opcode::kPrefetchu:
    case Opcode::kDiscard:
    case Opcode::kApplypriority:
    case Opcode::kPmevent:
    case Opcode::kBrkpt:
    case Opcode::kGriddepcontrol:
    case Opcode::kSetmaxnreg:
      return true;
    case Opcode::kCreatepolicy:
      Write(instruction.operands[0], Int64(0));
      return true;
    default:
      return Unsupported(instruction);
  }
}

}  // namespace farcall::cpu_device::jit
