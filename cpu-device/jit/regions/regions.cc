// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/regions.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Transforms/Utils/Local.h>

#include "cpu-device/jit/regions/divergence.h"
#include "cpu-device/jit/regions/region_plan.h"
#include "cpu-device/jit/regions/region_values.h"
#include "cpu-device/jit/regions/thread_loops.h"
#include "cpu-device/jit/regions/warp_marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// Past this many blocks the sets of what comes after each take more time than they are worth.
constexpr size_t kMostBlocks = 2000;

bool IsEntered(const llvm::Cycle& cycle) {
  return cycle.isReducible() &&
         llvm::all_of(cycle.children(), [](const llvm::Cycle* child) { return IsEntered(*child); });
}

// A counter that begins apart and goes on by common steps is where it began and a common count:
//   p = phi [first, ...], [p + step, ...]  becomes  p = first + phi [0, ...], [count + step, ...]
bool ShareSteps(llvm::PHINode* phi, const llvm::Cycle& cycle, const Divergence& divergence) {
  if (phi->getNumIncomingValues() != 2 || !phi->getType()->isIntegerTy()) return false;
  const unsigned inner = cycle.contains(phi->getIncomingBlock(0)) ? 0 : 1;
  if (cycle.contains(phi->getIncomingBlock(1 - inner))) return false;
  auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(phi->getIncomingValue(inner));
  if (!sum || sum->getOpcode() != llvm::Instruction::Add) return false;
  const unsigned at = sum->getOperand(0) == phi ? 0 : 1;
  Value* step = sum->getOperand(1 - at);
  if (sum->getOperand(at) != phi || divergence.Varies(step)) return false;
  llvm::PHINode* count = llvm::PHINode::Create(phi->getType(), 2, "", phi->getIterator());
  count->addIncoming(llvm::Constant::getNullValue(phi->getType()),
                     phi->getIncomingBlock(1 - inner));
  llvm::IRBuilder<> b(sum);
  count->addIncoming(b.CreateAdd(count, step), phi->getIncomingBlock(inner));
  b.SetInsertPoint(phi->getParent(), phi->getParent()->getFirstInsertionPt());
  phi->replaceAllUsesWith(b.CreateAdd(phi->getIncomingValue(1 - inner), count));
  phi->eraseFromParent();
  return true;
}

bool ShareSteps(const llvm::Cycle& cycle, const Divergence& divergence) {
  bool changed = false;
  for (llvm::PHINode& phi : llvm::make_early_inc_range(cycle.getHeader()->phis())) {
    if (divergence.Varies(&phi)) changed |= ShareSteps(&phi, cycle, divergence);
  }
  for (const llvm::Cycle* child : cycle.children()) changed |= ShareSteps(*child, divergence);
  return changed;
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
}

}  // namespace

bool FormRegions(llvm::Function& kernel, llvm::MDNode* unordered, uint32_t threads) {
  Tidy(kernel);
  NarrowWarpMarks(kernel);
  if (kernel.size() > kMostBlocks) return false;
  llvm::DominatorTree tree(kernel);
  llvm::CycleInfo cycles;
  cycles.compute(kernel);
  for (const llvm::Cycle* cycle : cycles.toplevel_cycles()) {
    if (!IsEntered(*cycle)) return false;
  }
  Divergence divergence(kernel, tree, cycles);
  bool shared = false;
  for (const llvm::Cycle* cycle : cycles.toplevel_cycles()) {
    shared |= ShareSteps(*cycle, divergence);
  }
  if (shared) divergence = Divergence(kernel, tree, cycles);
  RegionPlan plan(kernel, divergence, cycles);
  if (!plan.Make()) return false;
  RegionValues values(kernel, plan, divergence, unordered, threads);
  values.Separate();
  ThreadLoops(kernel, plan, values, unordered).Make();
  return true;
}

}  // namespace farcall::cpu_device::jit
