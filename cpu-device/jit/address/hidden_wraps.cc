// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/address/hidden_wraps.h"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>

namespace farcall::cpu_device::jit {
namespace {

using llvm::Instruction;
using llvm::Loop;
using llvm::SCEV;

// A number of 32 bits that grows by no more wraps behind millions of turns, past places of 4 GiB:
// it is left alone, for the sake of loops over shared memory, whose offsets have 32 bits.
constexpr unsigned kOffsetBits = 32;
constexpr uint64_t kMaxStride = 1024;

// What a number of fewer bits is widened from: would its check say too little?
bool WrapsUnseen(const SCEV* narrow, const Loop& loop, llvm::ScalarEvolution& evolution) {
  if (evolution.isLoopInvariant(narrow, &loop)) return false;
  const auto* counter = llvm::dyn_cast<llvm::SCEVAddRecExpr>(narrow);
  if (!counter) {  // one may come to light once something in it is assumed
    return llvm::SCEVExprContains(
        narrow, [](const SCEV* part) { return llvm::isa<llvm::SCEVAddRecExpr>(part); });
  }
  const SCEV* step = counter->getStepRecurrence(evolution);
  if (evolution.getTypeSizeInBits(narrow->getType()) >= kOffsetBits &&
      evolution.getUnsignedRangeMax(step).ule(kMaxStride))
    return false;
  return counter->getLoop() == &loop && !counter->hasNoUnsignedWrap() &&
         counter->getStart()->isZero() && !step->isOne() && evolution.isKnownPositive(step);
}

bool CutsBits(const Instruction& instruction) {
  switch (instruction.getOpcode()) {
    case Instruction::ZExt:
    case Instruction::And:
    case Instruction::Xor:
    case Instruction::URem:
      return instruction.getType()->isIntegerTy();
    default:
      return false;
  }
}

bool Hide(Loop& loop, llvm::ScalarEvolution& evolution) {
  bool changed = false;
  for (llvm::BasicBlock* block : loop.blocks()) {
    for (Instruction& instruction : *block) {
      if (!CutsBits(instruction)) continue;
      auto unseen = [&](const SCEV* part) {
        const auto* widened = llvm::dyn_cast<llvm::SCEVZeroExtendExpr>(part);
        return widened && WrapsUnseen(widened->getOperand(), loop, evolution);
      };
      if (!llvm::SCEVExprContains(evolution.getSCEV(&instruction), unseen)) continue;
      instruction.setOperand(
          0, new llvm::FreezeInst(instruction.getOperand(0), "hidden", instruction.getIterator()));
      evolution.forgetValue(&instruction);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

llvm::PreservedAnalyses HiddenWrapsPass::run(llvm::Function& function,
                                             llvm::FunctionAnalysisManager& analyses) {
  auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  bool changed = false;
  for (Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder())
    if (loop->isInnermost()) changed |= Hide(*loop, evolution);
  if (!changed) return llvm::PreservedAnalyses::all();
  llvm::PreservedAnalyses kept;
  kept.preserveSet<llvm::CFGAnalyses>();
  return kept;
}

}  // namespace farcall::cpu_device::jit
