// SPDX-License-Identifier: Apache-2.0
// Which values and branches are the same for all threads of a block.
#pragma once

#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/CycleInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Function.h>

namespace farcall::cpu_device::jit {

// Of a function as it was when this was made; what is added later counts as the same for all.
class Divergence {
 public:
  Divergence(llvm::Function& function, llvm::DominatorTree& tree, llvm::CycleInfo& cycles);
  // At its definition, or where it is used behind a loop that threads leave at different times.
  bool Varies(const llvm::Value* value) const { return varies_.contains(value); }
  // Whether it is the same for all only in the turns of a loop that threads may leave at different
  // times: behind the loop it may be used no more than it was.
  bool OfTurn(const llvm::Value* value) const { return of_turn_.contains(value); }
  void NoteVarying(const llvm::Value* value) { varies_.insert(value); }
  // Before `value` is erased: another may come to lie where it was.
  void Forget(const llvm::Value* value) {
    varies_.erase(value);
    of_turn_.erase(value);
  }
  bool Branches(const llvm::BasicBlock* block) const { return branches_.contains(block); }

 private:
  void TakeAllApart(llvm::Function& function);
  void AddMissed(llvm::Function& function, llvm::CycleInfo& cycles);
  void NoteTurns(const llvm::Cycle& cycle);

  llvm::DenseSet<const llvm::Value*> varies_, of_turn_;
  llvm::DenseSet<const llvm::BasicBlock*> branches_;  // whose end threads leave by different ways
};

}  // namespace farcall::cpu_device::jit
