// SPDX-License-Identifier: Apache-2.0
// LLVM's uniformity analysis, told by a target of ours where threads begin to differ.
#include "cpu-device/jit/regions/divergence.h"

#include <llvm/ADT/GenericUniformityImpl.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TargetTransformInfoImpl.h>
#include <llvm/Analysis/UniformityAnalysis.h>
#include <llvm/IR/IntrinsicInst.h>

#include <vector>

#include "cpu-device/jit/regions/marks.h"
#include "cpu-device/jit/regions/paths_apart.h"

namespace farcall::cpu_device::jit {
namespace {

// About a second's searches.
constexpr uint64_t kMaxSteps = 2'000'000;

bool IsSame(const llvm::Value& value) {
  return MarkOf(value) == kMarkReduce;
}

class Threads : public llvm::TargetTransformInfoImplCRTPBase<Threads> {
 public:
  explicit Threads(const llvm::DataLayout& layout) : TargetTransformInfoImplCRTPBase(layout) {}
  bool hasBranchDivergence(const llvm::Function*) const { return true; }
  bool isAlwaysUniform(const llvm::Value* value) const { return IsSame(*value); }
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
  AddMissed(function, cycles);
  for (const llvm::Cycle* cycle : cycles.toplevel_cycles()) NoteTurns(*cycle);
}

// Nothing is known: each thread may have its own of everything.
void Divergence::TakeAllApart(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    if (block.getTerminator()->getNumSuccessors() > 1) branches_.insert(&block);
    for (llvm::Instruction& instruction : block)
      if (!IsSame(instruction)) varies_.insert(&instruction);
  }
}

// What LLVM's analysis leaves out, and what comes of it: values of each thread's own where ways
// come together again, or behind a loop that threads leave in different turns.
void Divergence::AddMissed(llvm::Function& function, llvm::CycleInfo& cycles) {
  PathsApart paths(function, cycles);
  std::vector<const llvm::BasicBlock*> branches(branches_.begin(), branches_.end());
  std::vector<const llvm::Instruction*> fresh;
  const auto vary = [&](const llvm::Instruction& instruction) {
    if (!IsSame(instruction) && varies_.insert(&instruction).second) fresh.push_back(&instruction);
  };
  while (!branches.empty() || !fresh.empty()) {
    if (!fresh.empty()) {
      const llvm::Instruction* value = fresh.back();
      fresh.pop_back();
      for (const llvm::User* user : value->users()) {
        const auto* instruction = llvm::cast<llvm::Instruction>(user);
        vary(*instruction);
        if (instruction->isTerminator() && instruction->getNumSuccessors() > 1 &&
            branches_.insert(instruction->getParent()).second)
          branches.push_back(instruction->getParent());
      }
      continue;
    }
    if (paths.steps() > kMaxSteps) return TakeAllApart(function);
    const PathsApart::Found found = paths.From(branches.back());
    branches.pop_back();
    for (const llvm::BasicBlock* join : found.joins) {
      for (const llvm::PHINode& phi : join->phis())
        if (!phi.hasConstantOrUndefValue()) vary(phi);
    }
    for (const llvm::Cycle* cycle : found.left) {
      for (const llvm::BasicBlock* block : cycle->blocks()) {
        for (const llvm::Instruction& instruction : *block) {
          const bool behind = llvm::any_of(instruction.users(), [&](const llvm::User* user) {
            return !cycle->contains(llvm::cast<llvm::Instruction>(user)->getParent());
          });
          if (behind) vary(instruction);
        }
      }
    }
  }
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
      for (const llvm::Instruction& instruction : *block)
        if (!Varies(&instruction)) of_turn_.insert(&instruction);
    }
  }
  for (const llvm::Cycle* child : cycle.children()) NoteTurns(*child);
}

}  // namespace farcall::cpu_device::jit
