// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/thread_loops.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/regions/marks.h"
#include "cpu-device/jit/regions/warp_marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::Value;

namespace {

Value* FieldOf(llvm::IRBuilder<>& b, Value* base, size_t offset, llvm::Type* type) {
  llvm::LoadInst* load =
      b.CreateLoad(type, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, offset));
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b.getContext(), {}));
  return load;
}

Value* LaunchOf(llvm::IRBuilder<>& b, llvm::Function& kernel) {
  return FieldOf(b, kernel.getArg(0), offsetof(BlockContext, launch), b.getPtrTy());
}

}  // namespace

ThreadLoops::ThreadLoops(llvm::Function& kernel, RegionPlan& plan, const RegionValues& values,
                         llvm::MDNode* unordered)
    : kernel_(kernel), plan_(plan), values_(values), unordered_(unordered) {
  llvm::IRBuilder<> b(kernel.getEntryBlock().getTerminator());
  Value* launch = LaunchOf(b, kernel);
  for (size_t i = 0; i < 3; ++i) {
    sizes_[i] = FieldOf(b, launch, offsetof(LaunchContext, block) + 4 * i, b.getInt32Ty());
    // So that it is seen that no number of a thread overflows.
    llvm::cast<llvm::LoadInst>(sizes_[i])->setMetadata(
        llvm::LLVMContext::MD_range,
        llvm::MDBuilder(b.getContext())
            .createRange(llvm::APInt(32, 1), llvm::APInt(32, kMaxThreadsPerBlock + 1)));
  }
}

void ThreadLoops::Make() {
  std::vector<BasicBlock*> begins;
  for (size_t i = 0; i < plan_.regions().size(); ++i) {
    BasicBlock* entry = plan_.regions()[i].entry;
    BasicBlock* begin = BasicBlock::Create(kernel_.getContext(), "region", &kernel_, entry);
    llvm::SmallVector<BasicBlock*, 4> from(llvm::predecessors(entry));
    for (BasicBlock* block : from) block->getTerminator()->replaceSuccessorWith(entry, begin);
    llvm::IRBuilder<> b(begin);
    for (const RegionValues::Turn& turn : values_.turns()) {
      if (turn.region != static_cast<int>(i)) continue;
      b.CreateStore(b.CreateLoad(turn.now->getAllocatedType(), turn.next), turn.now);
    }
    begins.push_back(begin);
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    const Region& region = plan_.regions()[i];
    if (OncePerBlock(region)) {
      // As the first thread: what it reads of an array all threads have left the same there.
      llvm::IRBuilder<> b(begins[i]);
      for (unsigned axis = 0; axis < 4; ++axis) b.CreateStore(b.getInt32(0), values_.counter(axis));
      b.CreateBr(region.entry);
    } else {
      MakeLoop(region, begins[i]);
    }
  }
  ResolveMarks();
}

// It leaves nothing but what all threads have in common: one of them computes it.
bool ThreadLoops::OncePerBlock(const Region& region) const {
  for (BasicBlock* block : region.blocks) {
    for (llvm::Instruction& instruction : *block) {
      if (!instruction.mayHaveSideEffects()) continue;
      auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
      if (!store || !values_.IsShared(store->getPointerOperand())) return false;
    }
  }
  return true;
}

// for z, y, x: region
void ThreadLoops::MakeLoop(const Region& region, BasicBlock* before) {
  llvm::LLVMContext& context = kernel_.getContext();
  llvm::IRBuilder<> b(before);
  for (unsigned i = 0; i < 4; ++i) b.CreateStore(b.getInt32(0), values_.counter(i));
  b.CreateBr(region.entry);
  llvm::Instruction* leave = region.last->getTerminator();
  BasicBlock* target = leave->getSuccessor(0);
  BasicBlock* next = BasicBlock::Create(context, "thread.next", &kernel_);
  leave->setSuccessor(0, next);
  b.SetInsertPoint(next);
  auto advance = [&](unsigned i) {
    llvm::AllocaInst* counter = values_.counter(i);
    Value* value =
        b.CreateAdd(b.CreateLoad(b.getInt32Ty(), counter), b.getInt32(1), "", true, true);
    b.CreateStore(value, counter);
    return value;
  };
  advance(3);
  for (unsigned i = 0; i < 3; ++i) {
    BasicBlock* carry = BasicBlock::Create(context, "carry", &kernel_);
    llvm::BranchInst* latch =
        b.CreateCondBr(b.CreateICmpULT(advance(i), sizes_[i]), region.entry, carry);
    if (i == 0) {
      llvm::MDNode* parallel = llvm::MDNode::get(
          context, {llvm::MDString::get(context, "llvm.loop.parallel_accesses"), unordered_});
      llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, parallel});
      loop->replaceOperandWith(0, loop);
      latch->setMetadata(llvm::LLVMContext::MD_loop, loop);
    }
    b.SetInsertPoint(carry);
    if (i < 2) b.CreateStore(b.getInt32(0), values_.counter(i));
  }
  b.CreateBr(target);
}

void ThreadLoops::ResolveMarks() {
  if (llvm::Function* meet = kernel_.getParent()->getFunction(kMarkMeet)) {
    for (llvm::User* user : llvm::make_early_inc_range(meet->users())) {
      llvm::cast<llvm::Instruction>(user)->eraseFromParent();
    }
  }
  ResolveWarpMarks(kernel_, values_);
  if (llvm::Function* poll = kernel_.getParent()->getFunction(kMarkPoll)) {
    for (llvm::User* user : llvm::make_early_inc_range(poll->users())) {
      ResolvePoll(llvm::cast<llvm::CallInst>(user));
    }
  }
}

void ResolvePoll(llvm::CallInst* mark) {
  llvm::IRBuilder<> b(mark);
  Value* launch = LaunchOf(b, *mark->getFunction());
  llvm::LoadInst* flag = b.CreateLoad(
      b.getInt32Ty(),
      b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), launch, offsetof(LaunchContext, cancel)));
  flag->setVolatile(true);
  llvm::MDNode* unlikely = llvm::MDBuilder(b.getContext()).createBranchWeights(1, 1 << 20);
  llvm::Instruction* cancelled = llvm::SplitBlockAndInsertIfThen(
      b.CreateICmpNE(flag, b.getInt32(0)), mark, /*Unreachable=*/true, unlikely);
  b.SetInsertPoint(cancelled);
  const llvm::FunctionCallee leave = mark->getModule()->getOrInsertFunction(
      "fc_rt_cancelled", llvm::FunctionType::get(b.getVoidTy(), false));
  b.CreateCall(leave)->setDoesNotThrow();
  mark->eraseFromParent();
}

}  // namespace farcall::cpu_device::jit
