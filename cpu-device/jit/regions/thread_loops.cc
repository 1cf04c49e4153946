// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/thread_loops.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <array>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/regions/marks.h"
#include "cpu-device/jit/regions/matrix_marks.h"
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

// Says what Emitter::LoadLaunch says: of two equal loads what both say is kept.
Value* LaunchOf(llvm::IRBuilder<>& b, llvm::Function& kernel) {
  Value* launch = FieldOf(b, kernel.getArg(0), offsetof(BlockContext, launch), b.getPtrTy());
  auto note = [&](unsigned kind, uint64_t value) {
    llvm::Metadata* number = llvm::ConstantAsMetadata::get(b.getInt64(value));
    llvm::cast<llvm::LoadInst>(launch)->setMetadata(kind,
                                                    llvm::MDNode::get(b.getContext(), number));
  };
  note(llvm::LLVMContext::MD_dereferenceable, sizeof(LaunchContext));
  note(llvm::LLVMContext::MD_align, 8);
  return launch;
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
  if (values.left()) AddRange();
}

void ThreadLoops::Make() {
  if (end_) FindGuarded();
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
      SetCounters(b);
      b.CreateBr(region.entry);
    } else {
      StoreAhead(region, begins[i]);
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

void ThreadLoops::AddRange() {
  llvm::IRBuilder<> b(&kernel_.getEntryBlock(), kernel_.getEntryBlock().begin());
  for (llvm::AllocaInst*& first : first_) first = b.CreateAlloca(b.getInt32Ty());
  end_ = b.CreateAlloca(b.getInt32Ty());
  row_end_ = b.CreateAlloca(b.getInt32Ty());
  b.SetInsertPoint(kernel_.getEntryBlock().getTerminator());
  for (llvm::AllocaInst* first : first_) b.CreateStore(b.getInt32(0), first);
  b.CreateStore(b.CreateMul(b.CreateMul(sizes_[0], sizes_[1]), sizes_[2]), end_);
}

void ThreadLoops::FindGuarded() {
  std::vector<BasicBlock*> work;
  auto add = [&](const Region& region) {
    if (guarded_.insert(region.target).second) work.push_back(region.target);
  };
  for (const Region& region : plan_.regions()) {
    for (BasicBlock* block : region.blocks)
      if (MarkOf(block->front()) == kMarkLeave) add(region);
  }
  while (!work.empty()) {
    BasicBlock* block = work.back();
    work.pop_back();
    for (BasicBlock* next : llvm::successors(block))
      if (guarded_.insert(next).second) work.push_back(next);
  }
}

// What all threads compute alike and leave in a variable of the block is computed ahead of their
// loop: a store that some threads of a loop make keeps it from becoming vectors.
void ThreadLoops::StoreAhead(const Region& region, BasicBlock* begin) {
  llvm::SmallVector<llvm::StoreInst*, 8> stores;
  llvm::DenseMap<Value*, unsigned> written;
  for (BasicBlock* block : region.blocks) {
    for (llvm::Instruction& instruction : *block) {
      auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
      if (!store || !values_.IsShared(store->getPointerOperand())) continue;
      stores.push_back(store);
      ++written[store->getPointerOperand()];
    }
  }
  ahead_.clear();
  for (llvm::StoreInst* store : stores) ahead_[store->getPointerOperand()] = nullptr;
  for (llvm::StoreInst* store : stores) {
    if (written[store->getPointerOperand()] != 1) continue;
    Value* value = Ahead(region, begin, store->getValueOperand());
    if (!value) continue;
    new llvm::StoreInst(value, store->getPointerOperand(), begin);
    store->eraseFromParent();
  }
}

// Null if it cannot be computed there.
Value* ThreadLoops::Ahead(const Region& region, BasicBlock* begin, Value* value) {
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (!instruction || !llvm::is_contained(region.blocks, instruction->getParent()))
    return !instruction || instruction->getParent() == &kernel_.getEntryBlock() ? value : nullptr;
  if (Value* known = ahead_.lookup(value)) return known;
  if (auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) {
    Value* from = load->getPointerOperand();
    const bool counts = llvm::any_of(std::array{0u, 1u, 2u, 3u},
                                     [&](unsigned i) { return from == values_.counter(i); });
    // Not of a variable that the region writes.
    if (counts || !values_.IsShared(from) || ahead_.count(from)) return nullptr;
  } else if (instruction->mayReadOrWriteMemory() || llvm::isa<llvm::PHINode>(instruction) ||
             llvm::isa<llvm::CallBase>(instruction) ||
             !llvm::isSafeToSpeculativelyExecute(instruction)) {
    return nullptr;
  }
  llvm::SmallVector<Value*, 4> operands;
  for (llvm::Use& use : instruction->operands()) {
    operands.push_back(Ahead(region, begin, use.get()));
    if (!operands.back()) return nullptr;
  }
  llvm::Instruction* copy = instruction->clone();
  for (unsigned i = 0; i < operands.size(); ++i) copy->setOperand(i, operands[i]);
  copy->insertInto(begin, begin->end());
  ahead_[value] = copy;
  return copy;
}

// To the first thread.
void ThreadLoops::SetCounters(llvm::IRBuilder<>& b) {
  for (unsigned i = 0; i < 4; ++i) {
    Value* first = end_ ? static_cast<Value*>(b.CreateLoad(b.getInt32Ty(), first_[i]))
                        : static_cast<Value*>(b.getInt32(0));
    b.CreateStore(first, values_.counter(i));
  }
}

void ThreadLoops::BeginRow(llvm::IRBuilder<>& b, Value* x, Value* linear) {
  Value* rest = b.CreateSub(b.CreateLoad(b.getInt32Ty(), end_), linear);
  Value* last = b.CreateAdd(x, rest);
  b.CreateStore(b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, last, sizes_[0]), row_end_);
}

// Asks of each thread whether it has ended.
BasicBlock* ThreadLoops::MakeHead(BasicBlock* begin, BasicBlock* entry, BasicBlock* next) {
  llvm::IRBuilder<> b(begin);
  BeginRow(b, b.CreateLoad(b.getInt32Ty(), first_[0]), b.CreateLoad(b.getInt32Ty(), first_[3]));
  BasicBlock* head = BasicBlock::Create(kernel_.getContext(), "thread", &kernel_, entry);
  b.SetInsertPoint(head);
  Value* number = b.CreateZExt(b.CreateLoad(b.getInt32Ty(), values_.counter(3)), b.getInt64Ty(), "",
                               /*IsNonNeg=*/true);
  llvm::LoadInst* left =
      b.CreateLoad(b.getInt8Ty(), b.CreateInBoundsGEP(b.getInt8Ty(), values_.left(), number));
  left->setMetadata(llvm::LLVMContext::MD_access_group, unordered_);
  b.CreateCondBr(b.CreateICmpEQ(left, b.getInt8(0)), entry, next);
  return head;
}

// True: threads end in this region.
bool ThreadLoops::ResolveLeaves(const Region& region, BasicBlock* next) {
  bool found = false;
  for (BasicBlock* block : region.blocks) {
    if (MarkOf(block->front()) != kMarkLeave) continue;
    found = true;
    llvm::IRBuilder<> b(&block->front());
    Value* number = b.CreateZExt(b.CreateLoad(b.getInt32Ty(), values_.counter(3)), b.getInt64Ty(),
                                 "", /*IsNonNeg=*/true);
    llvm::StoreInst* store =
        b.CreateStore(b.getInt8(1), b.CreateInBoundsGEP(b.getInt8Ty(), values_.left(), number));
    store->setMetadata(llvm::LLVMContext::MD_access_group, unordered_);
    b.CreateBr(next);
    block->getTerminator()->eraseFromParent();
    for (llvm::Instruction& instruction : llvm::make_early_inc_range(*block))
      if (MarkOf(instruction) == kMarkLeave) instruction.eraseFromParent();
  }
  return found;
}

// Goes on with those that have not ended, at `target`, or to the block's end where there are none.
BasicBlock* ThreadLoops::AskWhoStays(BasicBlock* target) {
  llvm::LLVMContext& context = kernel_.getContext();
  BasicBlock* ask = BasicBlock::Create(context, "who.stays", &kernel_);
  BasicBlock* some = BasicBlock::Create(context, "some.stay", &kernel_);
  BasicBlock* none = BasicBlock::Create(context, "none.stays", &kernel_);
  llvm::IRBuilder<> b(ask);
  const llvm::FunctionCallee staying = kernel_.getParent()->getOrInsertFunction(
      "fc_rt_staying_threads",
      llvm::FunctionType::get(b.getInt64Ty(), {b.getPtrTy(), b.getPtrTy()}, false));
  llvm::CallInst* range = b.CreateCall(staying, {kernel_.getArg(0), values_.left()});
  range->setDoesNotThrow();
  Value* first = b.CreateTrunc(range, b.getInt32Ty());
  Value* end = b.CreateTrunc(b.CreateLShr(range, 32), b.getInt32Ty());
  b.CreateCondBr(b.CreateICmpEQ(first, end), none, some);
  b.SetInsertPoint(none);
  b.CreateRetVoid();
  b.SetInsertPoint(some);
  Value* row = b.CreateUDiv(first, sizes_[0]);
  b.CreateStore(b.CreateURem(first, sizes_[0]), first_[0]);
  b.CreateStore(b.CreateURem(row, sizes_[1]), first_[1]);
  b.CreateStore(b.CreateUDiv(row, sizes_[1]), first_[2]);
  b.CreateStore(first, first_[3]);
  b.CreateStore(end, end_);
  b.CreateBr(target);
  return ask;
}

// for z, y, x: region
void ThreadLoops::MakeLoop(const Region& region, BasicBlock* before) {
  llvm::LLVMContext& context = kernel_.getContext();
  llvm::IRBuilder<> b(before);
  SetCounters(b);
  llvm::Instruction* leave = region.last->getTerminator();
  BasicBlock* target = leave->getSuccessor(0);
  BasicBlock* next = BasicBlock::Create(context, "thread.next", &kernel_);
  leave->setSuccessor(0, next);
  BasicBlock* head = region.entry;
  const bool guarded = guarded_.contains(region.entry);
  if (guarded) head = MakeHead(before, region.entry, next);
  if (end_ && ResolveLeaves(region, next)) target = AskWhoStays(target);
  b.SetInsertPoint(before);
  b.CreateBr(head);
  b.SetInsertPoint(next);
  auto advance = [&](unsigned i) {
    llvm::AllocaInst* counter = values_.counter(i);
    Value* value =
        b.CreateAdd(b.CreateLoad(b.getInt32Ty(), counter), b.getInt32(1), "", true, true);
    b.CreateStore(value, counter);
    return value;
  };
  Value* linear = advance(3);
  for (unsigned i = 0; i < 3; ++i) {
    BasicBlock* carry = BasicBlock::Create(context, "carry", &kernel_);
    Value* size = sizes_[i];
    if (i == 0 && guarded) size = b.CreateLoad(b.getInt32Ty(), row_end_);
    llvm::BranchInst* latch = b.CreateCondBr(b.CreateICmpULT(advance(i), size), head, carry);
    if (i == 0) {
      llvm::MDNode* parallel = llvm::MDNode::get(
          context, {llvm::MDString::get(context, "llvm.loop.parallel_accesses"), unordered_});
      llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, parallel});
      loop->replaceOperandWith(0, loop);
      latch->setMetadata(llvm::LLVMContext::MD_loop, loop);
    }
    b.SetInsertPoint(carry);
    if (i == 0 && guarded) {
      BasicBlock* row = BasicBlock::Create(context, "row", &kernel_);
      b.CreateCondBr(b.CreateICmpULT(linear, b.CreateLoad(b.getInt32Ty(), end_)), row, target);
      b.SetInsertPoint(row);
      BeginRow(b, b.getInt32(0), linear);
    }
    if (i < 2) b.CreateStore(b.getInt32(0), values_.counter(i));
  }
  b.CreateBr(target);
}

void ThreadLoops::ResolveMarks() {
  if (llvm::Function* meet = kernel_.getParent()->getFunction(kMarkMeet))
    for (llvm::User* user : llvm::make_early_inc_range(meet->users()))
      llvm::cast<llvm::Instruction>(user)->eraseFromParent();
  ResolveWarpMarks(kernel_, values_);
  ResolveMatrixMarks(kernel_, values_);
  if (llvm::Function* poll = kernel_.getParent()->getFunction(kMarkPoll))
    for (llvm::User* user : llvm::make_early_inc_range(poll->users()))
      ResolvePoll(llvm::cast<llvm::CallInst>(user));
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
