// SPDX-License-Identifier: Apache-2.0
// What a branch decides: the blocks between it and where its ways meet again.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Function.h>

#include <vector>

namespace farcall::cpu_device::jit {

// Post-dominance over the blocks that get to a return: a fault ends the grid, so what only leads to
// one decides nothing.
class ControlFlow {
 public:
  explicit ControlFlow(llvm::Function& function);
  // Where the ways out of `block` meet again; null if it has one way, or they never meet.
  llvm::BasicBlock* Meets(llvm::BasicBlock* block) const;
  // What lies on these ways, in no order.
  std::vector<llvm::BasicBlock*> Decided(llvm::BasicBlock* block) const;
  bool Returns(const llvm::BasicBlock* block) const { return number_.count(block) != 0; }

 private:
  static constexpr unsigned kUnknown = ~0u;
  unsigned Ways(llvm::BasicBlock* block) const;
  void Number(llvm::BasicBlock* end);
  unsigned Common(unsigned a, unsigned b) const;

  std::vector<llvm::BasicBlock*> blocks_;  // that return
  llvm::DenseMap<const llvm::BasicBlock*, unsigned> number_;
  std::vector<unsigned> behind_;  // by number: its immediate post-dominator's; their count: none
};

}  // namespace farcall::cpu_device::jit
