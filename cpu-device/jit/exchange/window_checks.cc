// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/exchange/window_checks.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MathExtras.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <optional>
#include <vector>

#include "cpu-device/exec/context.h"
#include "cpu-device/jit/exchange/guarded_turns.h"

namespace farcall::cpu_device::jit {
namespace {

using llvm::BasicBlock;
using llvm::Loop;
using llvm::Value;

constexpr char kCheck[] = "fc_rt_check", kReaches[] = "fc_rt_reaches";
// A stride below this times a counter of 32 bits cannot wrap around an address.
constexpr uint64_t kMaxStride = uint64_t{1} << 20;
// Past these a loop costs more time in the compiler than most kernels ever run.
constexpr size_t kMaxChecks = 12, kMaxInstructions = 250;

struct Check {
  llvm::CallInst* call;
  llvm::BranchInst* branch;
  unsigned access;  // successor where the access is
  const llvm::SCEVAddRecExpr* address;
  uint64_t bytes;
};

// The checks of a loop that may be cloned for them; nothing where one of them cannot be moved, or
// something else stands in the way of vectorising.
std::optional<std::vector<Check>> ChecksOf(const Loop& loop, llvm::PredicatedScalarEvolution& pse) {
  std::vector<Check> checks;
  size_t instructions = 0;
  for (BasicBlock* block : loop.blocks()) {
    instructions += block->size();
    if (instructions > kMaxInstructions) return std::nullopt;
    for (llvm::Instruction& instruction : *block) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (!call) continue;
      const llvm::Function* callee = call->getCalledFunction();
      if (!callee) return std::nullopt;
      if (callee->isIntrinsic()) continue;
      if (callee->getName() != kCheck || checks.size() == kMaxChecks) return std::nullopt;
      BasicBlock* before = block->getSinglePredecessor();
      auto* branch = before ? llvm::dyn_cast<llvm::BranchInst>(before->getTerminator()) : nullptr;
      auto* bytes = llvm::dyn_cast<llvm::ConstantInt>(call->getArgOperand(2));
      if (!branch || !branch->isConditional() || !bytes) return std::nullopt;
      const auto* address = pse.getAsAddRec(call->getArgOperand(1));
      if (!address || address->getLoop() != &loop || !address->isAffine()) return std::nullopt;
      checks.push_back({call, branch, branch->getSuccessor(0) == block ? 1u : 0u, address,
                        bytes->getZExtValue()});
    }
  }
  return checks;
}

class Hoister {
 public:
  Hoister(llvm::Function& function, llvm::LoopInfo& loops, llvm::DominatorTree& tree,
          llvm::ScalarEvolution& evolution)
      : function_(function), loops_(loops), tree_(tree), evolution_(evolution) {}

  bool Try(Loop* loop);

 private:
  Value* Field(llvm::IRBuilder<>& b, Value* base, size_t offset, llvm::Type* type) {
    return b.CreateLoad(type, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, offset));
  }
  // What is known of a check's address before the loop: of its first turn, of its last, and whether
  // those between are aligned and lie between.
  struct Ends {
    Value *first, *step, *last, *even;
    uint64_t bytes;
  };
  Ends EndsOf(llvm::IRBuilder<>& b, llvm::SCEVExpander& expander, const Check& check, Value* last);
  Value* InWindow(llvm::IRBuilder<>& b, const Ends& ends);
  Value* Reaches(llvm::IRBuilder<>& b, const std::vector<Ends>& all);
  struct Findings {
    Value *inside, *good;  // all lies in the window; it may lie elsewhere
    Value* none;           // the loop does nothing; null: nothing is known of that
    const std::vector<Ends>& ends;
  };
  void Decide(BasicBlock* at, const Findings& found, BasicBlock* unchecked, BasicBlock* checked,
              BasicBlock* exit);
  void Straighten(Loop* loop, const Check& check, const Ends& ends);
  void MergeExit(Loop* loop, llvm::ValueToValueMapTy& copies);

  llvm::Function& function_;
  llvm::LoopInfo& loops_;
  llvm::DominatorTree& tree_;
  llvm::ScalarEvolution& evolution_;
  Value* begin_ = nullptr;
  Value* size_ = nullptr;
};

Hoister::Ends Hoister::EndsOf(llvm::IRBuilder<>& b, llvm::SCEVExpander& expander,
                              const Check& check, Value* last) {
  llvm::Instruction* at = &*b.GetInsertPoint();
  Value* start = expander.expandCodeFor(check.address->getStart(), b.getInt64Ty(), at);
  Value* step =
      expander.expandCodeFor(check.address->getStepRecurrence(evolution_), b.getInt64Ty(), at);
  Value* near =
      b.CreateICmpULT(b.CreateAdd(step, b.getInt64(kMaxStride)), b.getInt64(2 * kMaxStride));
  Value* odd = b.CreateAnd(step, b.getInt64(check.bytes - 1));
  return {start, step, b.CreateAdd(start, b.CreateMul(step, last)),
          b.CreateAnd(near, b.CreateICmpEQ(odd, b.getInt64(0))), check.bytes};
}

// Both ends of what the loop accesses: inside and aligned, as Emitter::FitsWindow has it.
Value* Hoister::InWindow(llvm::IRBuilder<>& b, const Ends& ends) {
  const unsigned shift = llvm::Log2_64(ends.bytes);
  Value* limit = b.CreateLShr(size_, shift);
  auto fits = [&](Value* address) {
    Value* offset = b.CreateSub(address, begin_);
    Value* rotated = b.CreateIntrinsic(llvm::Intrinsic::fshr, {b.getInt64Ty()},
                                       {offset, offset, b.getInt64(shift)});
    return b.CreateICmpULT(rotated, limit);
  };
  return b.CreateAnd(fits(ends.first), fits(ends.last));
}

// Whether the loop may go through all that, wherever it lies.
Value* Hoister::Reaches(llvm::IRBuilder<>& b, const std::vector<Ends>& all) {
  llvm::FunctionType* type = llvm::FunctionType::get(
      b.getInt32Ty(), {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getInt32Ty()}, false);
  llvm::FunctionCallee reaches = function_.getParent()->getOrInsertFunction(kReaches, type);
  Value* good = nullptr;
  for (const Ends& ends : all) {
    llvm::CallInst* call = b.CreateCall(reaches, {function_.getArg(0), ends.first, ends.last,
                                                  b.getInt32(static_cast<uint32_t>(ends.bytes))});
    call->setDoesNotThrow();
    Value* yes = b.CreateICmpNE(call, b.getInt32(0));
    good = good ? b.CreateAnd(good, yes) : yes;
  }
  return good;
}

void Hoister::Decide(BasicBlock* at, const Findings& found, BasicBlock* unchecked,
                     BasicBlock* checked, BasicBlock* exit) {
  llvm::LLVMContext& context = function_.getContext();
  BasicBlock* elsewhere = BasicBlock::Create(context, "elsewhere", &function_, unchecked);
  BasicBlock* asks = BasicBlock::Create(context, "asks", &function_, unchecked);
  llvm::Instruction* old = at->getTerminator();
  llvm::IRBuilder<>(old).CreateCondBr(found.inside, unchecked, elsewhere,
                                      llvm::MDBuilder(context).createBranchWeights(1 << 10, 1));
  old->eraseFromParent();
  llvm::IRBuilder<> b(elsewhere);
  if (found.none) {
    BasicBlock* some = BasicBlock::Create(context, "some", &function_, asks);
    b.CreateCondBr(found.none, exit, some);
    b.SetInsertPoint(some);
  }
  b.CreateCondBr(found.good, asks, checked);
  b.SetInsertPoint(asks);
  b.CreateCondBr(Reaches(b, found.ends), unchecked, checked);
}

// The address as what it has been found to be, so that nobody need find it out again.
void Hoister::Straighten(Loop* loop, const Check& check, const Ends& ends) {
  llvm::PHINode* turn = CounterOf(*loop);
  Value* address = check.call->getArgOperand(1);
  llvm::IRBuilder<> b(loop->getHeader(), loop->getHeader()->getFirstNonPHIIt());
  Value* straight = b.CreateAdd(ends.first, b.CreateMul(ends.step, turn));
  address->replaceUsesWithIf(straight, [&](const llvm::Use& use) {
    return loop->contains(llvm::cast<llvm::Instruction>(use.getUser()));
  });
  llvm::RecursivelyDeleteTriviallyDeadInstructions(address);
}

// What is used behind the loop comes from either of the two.
void Hoister::MergeExit(Loop* loop, llvm::ValueToValueMapTy& copies) {
  BasicBlock* exit = loop->getExitBlock();
  for (llvm::PHINode& phi : exit->phis()) {
    for (unsigned i = 0, count = phi.getNumIncomingValues(); i < count; ++i) {
      BasicBlock* from = phi.getIncomingBlock(i);
      if (!loop->contains(from)) continue;
      Value* value = phi.getIncomingValue(i);
      auto copy = copies.find(value);
      phi.addIncoming(copy == copies.end() ? value : static_cast<Value*>(copy->second),
                      llvm::cast<BasicBlock>(copies[from]));
    }
  }
}

bool Hoister::Try(Loop* loop) {
  if (!loop->isInnermost() || !loop->isLoopSimplifyForm() || !loop->getExitBlock()) return false;
  llvm::PredicatedScalarEvolution pse(evolution_, *loop);
  const llvm::SCEV* count = pse.getBackedgeTakenCount();
  if (llvm::isa<llvm::SCEVCouldNotCompute>(count)) return false;
  // More could make an address wrap around.
  if (evolution_.getUnsignedRangeMax(count).getActiveBits() > 32) return false;
  std::optional<std::vector<Check>> checks = ChecksOf(*loop, pse);
  if (!checks || checks->empty()) return false;

  llvm::Instruction* at = loop->getLoopPreheader()->getTerminator();
  llvm::SCEVExpander expander(evolution_, function_.getDataLayout(), "window");
  if (!expander.isSafeToExpandAt(count, at)) return false;
  for (const Check& check : *checks)
    if (!expander.isSafeToExpandAt(check.address->getStart(), at) ||
        !expander.isSafeToExpandAt(check.address->getStepRecurrence(evolution_), at))
      return false;
  llvm::formLCSSARecursively(*loop, tree_, &loops_, &evolution_);

  const std::optional<GuardedTurns> guarded = GuardedTurns::Of(*loop, evolution_);
  const bool shortens = guarded && guarded->CanExpand(expander, at);

  llvm::IRBuilder<> b(at);
  Value* launch = Field(b, function_.getArg(0), offsetof(BlockContext, launch), b.getPtrTy());
  begin_ = Field(b, launch, offsetof(LaunchContext, window_begin), b.getInt64Ty());
  size_ = Field(b, launch, offsetof(LaunchContext, window_size), b.getInt64Ty());
  Value* last = b.CreateZExt(expander.expandCodeFor(count, count->getType(), at), b.getInt64Ty());
  Value* good = b.CreateNot(expander.expandCodeForPredicate(&pse.getPredicate(), at));
  Value *turns = nullptr, *none = nullptr;
  if (shortens) {
    turns = guarded->Count(b, expander, last, &good);
    none = b.CreateAnd(good, b.CreateICmpEQ(turns, b.getInt64(0)));
    good = b.CreateAnd(good, b.CreateICmpNE(turns, b.getInt64(0)));
    last = b.CreateSub(turns, b.getInt64(1));
  }
  std::vector<Ends> ends;
  for (const Check& check : *checks) {
    ends.push_back(EndsOf(b, expander, check, last));
    good = b.CreateAnd(good, ends.back().even);
  }
  Value* inside = good;
  for (const Ends& each : ends) inside = b.CreateAnd(inside, InWindow(b, each));

  BasicBlock* decides = loop->getLoopPreheader();
  BasicBlock* preheader =
      llvm::SplitBlock(decides, decides->getTerminator(), &tree_, &loops_, nullptr, "unchecked");
  llvm::ValueToValueMapTy copies;
  llvm::SmallVector<BasicBlock*, 16> blocks;
  Loop* checked = llvm::cloneLoopWithPreheader(preheader, decides, loop, copies, ".checked",
                                               &loops_, &tree_, blocks);
  llvm::remapInstructionsInBlocks(blocks, copies);
  Decide(decides, {inside, good, none, ends}, preheader, checked->getLoopPreheader(),
         loop->getExitBlock());
  MergeExit(loop, copies);
  for (size_t i = 0; i < checks->size(); ++i) Straighten(loop, (*checks)[i], ends[i]);
  for (const Check& check : *checks) {
    BasicBlock* block = check.branch->getParent();
    check.branch->setCondition(b.getInt1(check.access == 0));
    llvm::ConstantFoldTerminator(block);
  }
  if (shortens) guarded->Shorten(*loop, turns);
  // Rarely run: not worth vectorising, and the compiler's time.
  llvm::MDNode* off =
      llvm::MDNode::get(function_.getContext(),
                        llvm::MDString::get(function_.getContext(), "llvm.loop.unroll.disable"));
  checked->setLoopID(llvm::makePostTransformationMetadata(function_.getContext(),
                                                          checked->getLoopID(), {}, {off}));
  return true;
}

}  // namespace

llvm::PreservedAnalyses WindowChecksPass::run(llvm::Function& function,
                                              llvm::FunctionAnalysisManager& analyses) {
  std::vector<BasicBlock*> headers;
  for (Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
    if (loop->isInnermost()) headers.push_back(loop->getHeader());
  bool changed = false;
  for (BasicBlock* header : headers) {
    // Made anew after each change, which outdates them.
    auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
    Hoister hoister(function, loops, analyses.getResult<llvm::DominatorTreeAnalysis>(function),
                    analyses.getResult<llvm::ScalarEvolutionAnalysis>(function));
    if (!hoister.Try(loops.getLoopFor(header))) continue;
    changed = true;
    llvm::removeUnreachableBlocks(function);
    analyses.invalidate(function, llvm::PreservedAnalyses::none());
  }
  return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

}  // namespace farcall::cpu_device::jit
