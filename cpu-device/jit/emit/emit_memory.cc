// SPDX-License-Identifier: Apache-2.0
// Loads and stores of all spaces. Shared and local addresses are offsets into their windows, the
// others host pointers; each access is checked against its window and its natural alignment.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Support/MathExtras.h>

#include "cpu-device/jit/emit/emitter.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using ptx::Opcode;
using ptx::Semantics;
using ptx::Space;

namespace {

bool IsShared(Space space) {
  return space == Space::kShared || space == Space::kSharedCluster;
}
bool IsParam(Space space) {
  return space == Space::kParam || space == Space::kParamEntry || space == Space::kParamFunc;
}

}  // namespace

Space Emitter::SpaceOf(const Operand& operand, Space written) const {
  // ld without a space from a named variable: the variable's own
  if (written == Space::kNone && operand.variable) return operand.variable->space;
  return written;
}

// Inside [0, size) and aligned, in one comparison: rotated, low bits that are set make the offset
// huge.
llvm::Value* Emitter::FitsWindow(Value* offset, Value* size, unsigned bytes) {
  unsigned shift = llvm::Log2_32(bytes);
  if (shift == 0) return b_.CreateICmpULT(offset, size);
  Value* rotated =
      Intrinsic(llvm::Intrinsic::fshr, {b_.getInt64Ty()}, {offset, offset, Int64(shift)});
  return b_.CreateICmpULT(rotated, b_.CreateLShr(size, shift));
}

llvm::Value* Emitter::CheckedGeneric(const Instruction& instruction, Value* address,
                                     unsigned bytes) {
  Value* begin = LaunchField(offsetof(LaunchContext, window_begin), b_.getInt64Ty());
  Value* size = LaunchField(offsetof(LaunchContext, window_size), b_.getInt64Ty());
  Value* offset = b_.CreateSub(address, begin);
  Value* inside = FitsWindow(offset, size, bytes);
  BasicBlock* slow = BasicBlock::Create(context_, "check", llvm_function_);
  BasicBlock* access = BasicBlock::Create(context_, "access", llvm_function_);
  llvm::MDNode* likely = llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1);
  b_.CreateCondBr(inside, access, slow, likely);
  b_.SetInsertPoint(slow);
  Call("fc_rt_check", b_.getVoidTy(), {block_, address, Int32(bytes), Int32(instruction.line)});
  b_.CreateBr(access);
  b_.SetInsertPoint(access);
  // Not the integer as a pointer: of such LLVM does not see which lie side by side.
  Value* window = LaunchField(offsetof(LaunchContext, window_begin), b_.getPtrTy());
  return b_.CreateGEP(b_.getInt8Ty(), window, offset);
}

// A null `size` asks for alignment alone: the guard pages do the rest.
llvm::Value* Emitter::CheckedWindow(const Instruction& instruction, Value* offset, Value* base,
                                    Value* size, unsigned bytes, bool local) {
  Value* inside = size ? FitsWindow(offset, size, bytes)
                       : b_.CreateICmpEQ(b_.CreateAnd(offset, Int64(bytes - 1)), Int64(0));
  BasicBlock* fault = BasicBlock::Create(context_, "fault", llvm_function_);
  BasicBlock* access = BasicBlock::Create(context_, "access", llvm_function_);
  llvm::MDNode* likely = llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1);
  b_.CreateCondBr(inside, access, fault, likely);
  b_.SetInsertPoint(fault);
  uint32_t line = (instruction.line & 0x7fffffff) | (local ? 0x80000000u : 0);
  Call("fc_rt_window_fault", b_.getVoidTy(),
       {offset, size ? size : Int64(0), Int32(bytes), Int32(line)});
  b_.CreateUnreachable();
  b_.SetInsertPoint(access);
  return b_.CreateGEP(b_.getInt8Ty(), base, offset);
}

llvm::Value* Emitter::Address(const Instruction& instruction, const Operand& operand, Space space,
                              unsigned bytes) {
  bool constant = operand.variable && operand.reg == ptx::kNoRegister;
  auto in_variable = [&] {
    return constant && operand.value >= 0 &&
           static_cast<uint64_t>(operand.value) + bytes <= operand.variable->size_bytes &&
           operand.value % bytes == 0;
  };
  if (IsParam(space)) {
    if (!constant) return CheckedGeneric(instruction, SymbolAddress(operand), bytes);
    auto slot = scope_->param_slots.find(operand.variable);
    uint64_t size = std::max<uint64_t>(operand.variable->size_bytes, 8);
    if (slot == scope_->param_slots.end() || operand.value < 0 ||
        static_cast<uint64_t>(operand.value) + bytes > size) {
      Unsupported(instruction, "parameter outside its declaration");
      return nullptr;
    }
    return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), slot->second,
                                         static_cast<uint64_t>(operand.value));
  }
  Value* address = SymbolAddress(operand);
  if (space == Space::kSharedCluster && !in_variable()) {
    return Call("fc_rt_cluster_pointer", b_.getPtrTy(),
                {block_, address, Int32(bytes), Int32(instruction.line)});
  }
  if (IsShared(space)) {
    Value* base = BlockField(offsetof(BlockContext, shared), b_.getPtrTy());
    if (in_variable()) return b_.CreateGEP(b_.getInt8Ty(), base, address);
    // 4 GiB behind the window are guard: what a 32-bit offset reaches needs no comparison.
    bool narrow = operand.reg != ptx::kNoRegister
                      ? ptx::BitsOf(scope_->function->registers[operand.reg].type) <= 32
                      : operand.value >= 0 && operand.value < (int64_t{1} << 31);
    if (narrow && bytes < 8) return b_.CreateGEP(b_.getInt8Ty(), base, address);
    Value* size =
        narrow ? nullptr : BlockField(offsetof(BlockContext, shared_bytes), b_.getInt64Ty());
    return CheckedWindow(instruction, address, base, size, bytes, false);
  }
  if (space == Space::kLocal) {
    Value* base = ThreadField(offsetof(ThreadContext, local), b_.getPtrTy());
    if (in_variable()) return b_.CreateGEP(b_.getInt8Ty(), base, address);
    Value* size = BlockField(offsetof(BlockContext, local_bytes), b_.getInt64Ty());
    return CheckedWindow(instruction, address, base, size, bytes, true);
  }
  if (space == Space::kTex) {
    Unsupported(instruction);
    return nullptr;
  }
  if (in_variable()) return b_.CreateIntToPtr(address, b_.getPtrTy());
  return CheckedGeneric(instruction, address, bytes);
}

llvm::Value* Emitter::CheckedAddress(const Instruction& instruction, Value* address, Space space,
                                     unsigned bytes) {
  if (space == Space::kSharedCluster) {
    return Call("fc_rt_cluster_pointer", b_.getPtrTy(),
                {block_, address, Int32(bytes), Int32(instruction.line)});
  }
  if (space == Space::kShared) {
    return CheckedWindow(
        instruction, address, BlockField(offsetof(BlockContext, shared), b_.getPtrTy()),
        BlockField(offsetof(BlockContext, shared_bytes), b_.getInt64Ty()), bytes, false);
  }
  if (space != Space::kNone && space != Space::kGlobal) {
    Unsupported(instruction, "state space");
    return nullptr;
  }
  return CheckedGeneric(instruction, address, bytes);
}

// Nothing orders the accesses of threads between two barriers: what one of them wrote, the others
// need not see. The vectoriser may so run them in step.
void Emitter::MarkUnordered(llvm::Instruction* access) const {
  if (unordered_) access->setMetadata(llvm::LLVMContext::MD_access_group, unordered_);
}

bool Emitter::EmitLoad(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type), bytes = bits / 8, count = mods.vector;
  if (bits < 8) return Unsupported(instruction);
  Space space = SpaceOf(ops[1], mods.space);
  Value* pointer = Address(instruction, ops[1], space, bytes * count);
  if (!pointer) return false;
  llvm::Type* element = TypeOf(type);
  llvm::Type* whole = count == 1 ? element : llvm::FixedVectorType::get(element, count);
  llvm::LoadInst* load = b_.CreateAlignedLoad(whole, pointer, llvm::Align(bytes * count));
  if (!IsParam(space)) MarkUnordered(load);
  bool strong = mods.semantics > Semantics::kWeak;
  if (strong && !IsParam(space)) {
    if (count == 1 && bits <= 64 && mods.semantics != Semantics::kVolatile &&
        mods.semantics != Semantics::kMmio) {
      load->setAtomic(mods.semantics == Semantics::kAcquire ? llvm::AtomicOrdering::Acquire
                                                            : llvm::AtomicOrdering::Monotonic);
    } else {
      load->setVolatile(true);
    }
  }
  if (IsParam(space)) {
    // Slots of calls and entries are laid out by us: 8-byte aligned at least as a whole, fields as
    // they come.
    load->setAlignment(
        llvm::Align(scope_->function->is_entry ? bytes : std::min(8u, bytes * count)));
    if (scope_->function->is_entry && ops[1].variable &&
        ops[1].variable->param_offset % (bytes * count) == 0) {
      const auto& params = scope_->function->params;
      size_t at = ops[1].variable->index;
      if (at < params.size() && params[at].get() == ops[1].variable)
        load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    }
  }
  if (count == 1) {
    Write(ops[0], load, ptx::IsSigned(type));
    return true;
  }
  if (ops[0].elements.size() != count) return Unsupported(instruction, "operand count");
  for (unsigned i = 0; i < count; ++i)
    Write(ops[0].elements[i], b_.CreateExtractElement(load, i), ptx::IsSigned(type));
  return true;
}

bool Emitter::EmitStore(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  const ptx::Modifiers& mods = instruction.mods;
  if (instruction.Has("bulk")) return Unsupported(instruction);
  Type type = instruction.type();
  unsigned bits = ptx::BitsOf(type), bytes = bits / 8, count = mods.vector;
  if (bits < 8) return Unsupported(instruction);
  Space space = SpaceOf(ops[0], mods.space);
  Value* value = nullptr;
  if (count == 1) {
    value = Read(ops[1], type);
  } else {
    if (ops[1].elements.size() != count) return Unsupported(instruction, "operand count");
    value = llvm::PoisonValue::get(llvm::FixedVectorType::get(TypeOf(type), count));
    for (unsigned i = 0; i < count; ++i)
      value = b_.CreateInsertElement(value, Read(ops[1].elements[i], type), i);
  }
  Value* pointer = Address(instruction, ops[0], space, bytes * count);
  if (!pointer) return false;
  // As WarpExchange has it for the entry: they read what was there before one writes, and what all
  // wrote afterwards.
  const bool lockstep = CanSuspend() && !InEntry() && IsVolatileOfCallee(instruction);
  if (lockstep) Suspend(Wait::kLockstep);
  llvm::StoreInst* store = b_.CreateAlignedStore(value, pointer, llvm::Align(bytes * count));
  if (IsParam(space))
    store->setAlignment(llvm::Align(std::min(8u, bytes)));
  else
    MarkUnordered(store);
  if (mods.semantics > Semantics::kWeak && !IsParam(space)) {
    if (count == 1 && bits <= 64 && mods.semantics != Semantics::kVolatile &&
        mods.semantics != Semantics::kMmio) {
      store->setAtomic(mods.semantics == Semantics::kRelease ? llvm::AtomicOrdering::Release
                                                             : llvm::AtomicOrdering::Monotonic);
    } else {
      store->setVolatile(true);
    }
  }
  if (lockstep) Suspend(Wait::kLockstep);
  return !mods.async || EmitBytesHaveCome(instruction, ops.back(), space, Int64(bytes * count));
}

bool Emitter::EmitCvta(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* value = ReadInt(ops[1], 64);
  Value* base = Int64(0);
  Space space = instruction.mods.space;
  // The window of .shared lies in that of the cluster: other blocks' addresses become theirs there.
  const bool other = IsShared(space) && instruction.mods.to && layout_.maps_blocks;
  if (space == Space::kSharedCluster || other) {
    Write(ops[0], instruction.mods.to
                      ? Call("fc_rt_generic_to_cluster", b_.getInt64Ty(), {block_, value})
                      : Call("fc_rt_cluster_to_generic", b_.getInt64Ty(),
                             {block_, value, Int32(instruction.line)}));
    return true;
  }
  if (IsShared(space)) {
    base = b_.CreatePtrToInt(BlockField(offsetof(BlockContext, shared), b_.getPtrTy()),
                             b_.getInt64Ty());
  } else if (space == Space::kLocal) {
    base = b_.CreatePtrToInt(ThreadField(offsetof(ThreadContext, local), b_.getPtrTy()),
                             b_.getInt64Ty());
  }
  Write(ops[0], instruction.mods.to ? b_.CreateSub(value, base) : b_.CreateAdd(value, base));
  return true;
}

bool Emitter::EmitIsspacep(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  Value* address = ReadInt(ops[1], 64);
  auto inside = [&](Value* base, Value* size) {
    return b_.CreateICmpULT(b_.CreateSub(address, b_.CreatePtrToInt(base, b_.getInt64Ty())), size);
  };
  Value* shared = inside(BlockField(offsetof(BlockContext, shared), b_.getPtrTy()),
                         BlockField(offsetof(BlockContext, shared_bytes), b_.getInt64Ty()));
  Value* local = inside(ThreadField(offsetof(ThreadContext, local), b_.getPtrTy()),
                        BlockField(offsetof(BlockContext, local_bytes), b_.getInt64Ty()));
  Value* param = inside(LaunchField(offsetof(LaunchContext, params), b_.getPtrTy()),
                        LaunchField(offsetof(LaunchContext, param_bytes), b_.getInt64Ty()));
  Value* result = nullptr;
  Space space = instruction.mods.space;
  if (space == Space::kSharedCluster) {
    result = b_.CreateICmpNE(Call("fc_rt_in_cluster_shared", b_.getInt32Ty(), {block_, address}),
                             Int32(0));
  } else if (IsShared(space)) {
    result = shared;
  } else if (space == Space::kLocal) {
    result = local;
  } else if (IsParam(space)) {
    result = param;
  } else if (space == Space::kGlobal) {
    result = b_.CreateNot(b_.CreateOr(b_.CreateOr(shared, local), param));
  } else if (space == Space::kConst) {
    result = b_.getFalse();
    for (const auto& variable : ptx_.globals) {
      if (variable->space != Space::kConst) continue;
      Operand symbol;
      symbol.kind = Operand::Kind::kSymbol;
      symbol.variable = variable.get();
      Value* begin = SymbolAddress(symbol);
      result = b_.CreateOr(
          result, b_.CreateICmpULT(b_.CreateSub(address, begin), Int64(variable->size_bytes)));
    }
  } else {
    return Unsupported(instruction);
  }
  Write(ops[0], result);
  return true;
}

bool Emitter::EmitAlloca(const Instruction& instruction) {
  const auto& ops = instruction.operands;
  size_t field = offsetof(ThreadContext, local_top);
  if (instruction.Is(Opcode::kStacksave)) {
    Write(ops[0], ThreadField(field, b_.getInt64Ty(), false));
    return true;
  }
  if (instruction.Is(Opcode::kStackrestore)) {
    SetField(thread_, field, ReadInt(ops[0], 64));
    return true;
  }
  uint64_t align = ops.size() > 2 && ops[2].Is(Operand::Kind::kInteger)
                       ? static_cast<uint64_t>(ops[2].value)
                       : 8;
  align = std::max<uint64_t>(align, 16);
  Value* top = ThreadField(field, b_.getInt64Ty(), false);
  Value* begin = b_.CreateAnd(b_.CreateAdd(top, Int64(align - 1)), Int64(~(align - 1)));
  Value* size = ReadInt(ops[1], 64);
  Value* end = b_.CreateAdd(begin, size);
  Value* limit = BlockField(offsetof(BlockContext, local_bytes), b_.getInt64Ty());
  Value* fits = b_.CreateAnd(b_.CreateICmpULE(end, limit), b_.CreateICmpULE(size, limit));
  BasicBlock* full = BasicBlock::Create(context_, "stack.full", llvm_function_);
  BasicBlock* good = BasicBlock::Create(context_, "stack.fits", llvm_function_);
  b_.CreateCondBr(fits, good, full);
  b_.SetInsertPoint(full);
  Call("fc_rt_stack_overflow", b_.getVoidTy(), {end, limit});
  b_.CreateUnreachable();
  b_.SetInsertPoint(good);
  SetField(thread_, field, end);
  Write(ops[0], begin);
  return true;
}

}  // namespace farcall::cpu_device::jit
