// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/regions.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu-device/jit/regions/analyses.h"
#include "cpu-device/jit/regions/gather_meetings.h"
#include "cpu-device/jit/regions/leaves.h"
#include "cpu-device/jit/regions/loops_in_step.h"
#include "cpu-device/jit/regions/region_plan.h"
#include "cpu-device/jit/regions/region_values.h"
#include "cpu-device/jit/regions/thread_loops.h"
#include "cpu-device/jit/regions/warp_marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// Past this many blocks the analyses take more time than the code is worth.
constexpr size_t kMaxBlocks = 20000;
// What LLVM does to loops grows with those before them.
constexpr size_t kMaxRegions = 500;
// A block's values, for as many threads as it may have.
constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30;

bool IsEntered(const llvm::Cycle& cycle) {
  return cycle.isReducible() &&
         llvm::all_of(cycle.children(), [](const llvm::Cycle* child) { return IsEntered(*child); });
}

// A counter that begins apart and goes on by common steps is where it began and a common count:
//   p = phi [first, ...], [p + step, ...]  becomes  p = first + phi [0, ...], [count + step, ...]
void ShareSteps(llvm::PHINode* phi, const llvm::Cycle& cycle, const Divergence& divergence) {
  if (phi->getNumIncomingValues() != 2 || !phi->getType()->isIntegerTy()) return;
  const unsigned inner = cycle.contains(phi->getIncomingBlock(0)) ? 0 : 1;
  if (cycle.contains(phi->getIncomingBlock(1 - inner))) return;
  auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(phi->getIncomingValue(inner));
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return;
  const unsigned at = sum->getOperand(0) == phi ? 0 : 1;
  Value* step = sum->getOperand(1 - at);
  if (sum->getOperand(at) != phi || divergence.Varies(step)) return;
  llvm::PHINode* count = llvm::PHINode::Create(phi->getType(), 2, "", phi->getIterator());
  count->addIncoming(llvm::Constant::getNullValue(phi->getType()),
                     phi->getIncomingBlock(1 - inner));
  llvm::IRBuilder<> b(sum);
  count->addIncoming(b.CreateAdd(count, step), phi->getIncomingBlock(inner));
  b.SetInsertPoint(phi->getParent(), phi->getParent()->getFirstInsertionPt());
  phi->replaceAllUsesWith(b.CreateAdd(phi->getIncomingValue(1 - inner), count));
  phi->eraseFromParent();
}

void ShareSteps(const llvm::Cycle& cycle, const Divergence& divergence) {
  for (llvm::PHINode& phi : llvm::make_early_inc_range(cycle.getHeader()->phis()))
    if (divergence.Varies(&phi)) ShareSteps(&phi, cycle, divergence);
  for (const llvm::Cycle* child : cycle.children()) ShareSteps(*child, divergence);
}

// One return, and nothing that is never reached.
void Tidy(llvm::Function& kernel) {
  llvm::removeUnreachableBlocks(kernel);
  BasicBlock* common = nullptr;
  for (BasicBlock& block : llvm::make_early_inc_range(kernel)) {
    if (!llvm::isa<llvm::ReturnInst>(block.getTerminator())) continue;
    if (!common) {
      common = BasicBlock::Create(kernel.getContext(), "done", &kernel);
      llvm::ReturnInst::Create(kernel.getContext(), common);
    }
    if (&block == common) continue;
    block.getTerminator()->eraseFromParent();
    llvm::BranchInst::Create(common, &block);
  }
  // Blocks that do nothing but go there.
  for (bool again = common != nullptr; again;) {
    again = false;
    for (BasicBlock& block : llvm::make_early_inc_range(kernel)) {
      if (&block == &kernel.getEntryBlock() || block.getSingleSuccessor() != common ||
          !block.front().isTerminator())
        continue;
      block.replaceAllUsesWith(common);
      block.eraseFromParent();
      again = true;
    }
  }
}

bool HasReturn(const llvm::Function& kernel) {
  return llvm::any_of(kernel, [](const BasicBlock& block) {
    return llvm::isa<llvm::ReturnInst>(block.getTerminator());
  });
}

}  // namespace

bool FormRegions(llvm::Function& kernel, llvm::MDNode* unordered, uint32_t threads) {
  Tidy(kernel);
  NarrowWarpMarks(kernel);
  GatherMeetings(kernel);
  if (kernel.size() > kMaxBlocks) return false;
  {
    const Analyses known(kernel);
    for (const llvm::Cycle* cycle : known.cycles.info.toplevel_cycles())
      if (!IsEntered(*cycle)) return false;
    for (const llvm::Cycle* cycle : known.cycles.info.toplevel_cycles())
      ShareSteps(*cycle, known.divergence);
  }
  RunLoopsInStep(kernel);
  // Where all end so, nothing is left that the block could come to together.
  if (MarkLeaves(kernel, Analyses(kernel).divergence) && llvm::removeUnreachableBlocks(kernel) &&
      !HasReturn(kernel))
    return false;
  Analyses known(kernel);
  Divergence& divergence = known.divergence;
  RegionPlan plan(kernel, divergence, known.cycles.info);
  if (!plan.Make() || plan.regions().size() > kMaxRegions) return false;
  RegionValues values(kernel, plan, divergence, unordered, threads);
  values.Separate();
  if (values.frame_bytes() > kMaxFrameBytes) return false;
  ThreadLoops(kernel, plan, values, unordered).Make();
  return true;
}

}  // namespace farcall::cpu_device::jit
