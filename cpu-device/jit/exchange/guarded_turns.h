// SPDX-License-Identifier: Apache-2.0
// Loops over threads of which the last threads have nothing to do: for (t) if (base + t < n) ...;
#pragma once

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <optional>
#include <vector>

namespace farcall::cpu_device::jit {

// How many turns of the loop came before this one, 64 bits; made where the loop has none.
llvm::PHINode* CounterOf(const llvm::Loop& loop);

// The turns in which such a loop does something: its first ones, as many as the condition says. The
// loop made to end behind them needs no condition, and vector instructions no mask.
class GuardedTurns {
 public:
  // Nothing where the loop is not of that form: a condition in its header, behind which lies all
  // that it does, of comparisons of numbers that grow by one a turn with numbers that stay.
  static std::optional<GuardedTurns> Of(const llvm::Loop& loop, llvm::ScalarEvolution& evolution);

  bool CanExpand(const llvm::SCEVExpander& expander, llvm::Instruction* at) const;
  // How many turns, 64 bits, of at most `last` + 1. `*good`: and whether that holds, which it does
  // unless a number wraps around.
  llvm::Value* Count(llvm::IRBuilder<>& b, llvm::SCEVExpander& expander, llvm::Value* last,
                     llvm::Value** good) const;
  // Has the loop end after `count` turns, at least one, without asking its condition.
  void Shorten(const llvm::Loop& loop, llvm::Value* count) const;

 private:
  struct Comparison {
    const llvm::SCEV* start;  // of the number that grows
    const llvm::SCEV* bound;
    bool is_signed, or_equal;
  };

  bool Collect(llvm::Value* condition, bool wanted, const llvm::Loop& loop,
               llvm::ScalarEvolution& evolution);
  bool Add(llvm::ICmpInst& compare, bool wanted, const llvm::Loop& loop,
           llvm::ScalarEvolution& evolution);

  llvm::BranchInst* branch_ = nullptr;
  unsigned inside_ = 0;  // its successor that does something
  std::vector<Comparison> comparisons_;
  std::vector<std::pair<llvm::Value*, bool>> fixed_;  // conditions that stay, and what they must be
};

}  // namespace farcall::cpu_device::jit
