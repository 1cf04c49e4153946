// SPDX-License-Identifier: Apache-2.0
// LLVM's uniformity analysis, told by a target of ours where threads begin to differ.
#include "cpu-device/jit/regions/divergence.h"

#include <llvm/ADT/GenericUniformityImpl.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TargetTransformInfoImpl.h>
#include <llvm/Analysis/UniformityAnalysis.h>
#include <llvm/IR/IntrinsicInst.h>

#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {
namespace {

class Threads : public llvm::TargetTransformInfoImplCRTPBase<Threads> {
 public:
  explicit Threads(const llvm::DataLayout& layout) : TargetTransformInfoImplCRTPBase(layout) {}
  bool hasBranchDivergence(const llvm::Function*) const { return true; }
  bool isAlwaysUniform(const llvm::Value* value) const { return MarkOf(*value) == kMarkReduce; }
  bool isSourceOfDivergence(const llvm::Value* value) const {
    const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (!instruction || isAlwaysUniform(value)) return false;
    if (llvm::isa<llvm::AllocaInst>(instruction)) return true;  // one for each thread
    if (const auto* call = llvm::dyn_cast<llvm::CallInst>(instruction)) {
      const llvm::Function* callee = call->getCalledFunction();
      return !callee || callee->getName().starts_with("fc.thread.") || IsMatrixMark(*call) ||
             !call->doesNotAccessMemory();
    }
    // Another thread may have written what this one reads a moment later.
    if (instruction->hasMetadata(llvm::LLVMContext::MD_invariant_load)) return false;
    return instruction->mayReadOrWriteMemory();
  }
};

}  // namespace

Divergence::Divergence(llvm::Function& function, llvm::DominatorTree& tree,
                       llvm::CycleInfo& cycles) {
  const llvm::TargetTransformInfo threads{Threads(function.getDataLayout())};
  llvm::UniformityInfo uniformity(tree, cycles, &threads);
  uniformity.compute();
  for (llvm::BasicBlock& block : function) {
    if (uniformity.hasDivergentTerminator(block)) branches_.insert(&block);
    for (llvm::Instruction& instruction : block) {
      bool varies = uniformity.isDivergent(&instruction);
      for (const llvm::Use& use : instruction.uses()) varies |= uniformity.isDivergentUse(use);
      if (varies) varies_.insert(&instruction);
    }
  }
  for (const llvm::Cycle* cycle : cycles.toplevel_cycles()) NoteTurns(*cycle);
}

// A loop that all threads come through together has a place in it where they meet.
void Divergence::NoteTurns(const llvm::Cycle& cycle) {
  bool apart = false, meets = false;
  for (const llvm::BasicBlock* block : cycle.blocks()) {
    apart |= Branches(block);
    meets |= IsMeeting(block->front());
  }
  if (apart && !meets) {
    for (const llvm::BasicBlock* block : cycle.blocks()) {
      for (const llvm::Instruction& instruction : *block) {
        if (!Varies(&instruction)) of_turn_.insert(&instruction);
      }
    }
  }
  for (const llvm::Cycle* child : cycle.children()) NoteTurns(*child);
}

}  // namespace farcall::cpu_device::jit
