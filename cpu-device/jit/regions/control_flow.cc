// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/control_flow.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

ControlFlow::ControlFlow(llvm::Function& function) {
  llvm::SmallPtrSet<BasicBlock*, 32> returns;
  std::vector<BasicBlock*> work;
  for (BasicBlock& block : function) {
    if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) work.push_back(&block);
  }
  while (!work.empty()) {
    BasicBlock* block = work.back();
    work.pop_back();
    if (!returns.insert(block).second) continue;
    for (BasicBlock* before : llvm::predecessors(block)) work.push_back(before);
  }
  // Ends first, as what comes after a block decides what it says.
  for (BasicBlock* block : llvm::post_order(&function)) {
    if (!returns.count(block)) continue;
    number_[block] = static_cast<unsigned>(blocks_.size());
    blocks_.push_back(block);
  }
  const auto count = static_cast<unsigned>(blocks_.size());
  after_.assign(count, llvm::BitVector(count, true));
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0; i < count; ++i) {
      llvm::BitVector common(count, Ways(blocks_[i]) != 0);
      for (BasicBlock* next : llvm::successors(blocks_[i])) {
        auto at = number_.find(next);
        if (at != number_.end()) common &= after_[at->second];
      }
      common.set(i);
      if (common != after_[i]) {
        after_[i] = common;
        changed = true;
      }
    }
  }
}

unsigned ControlFlow::Ways(BasicBlock* block) const {
  llvm::SmallPtrSet<BasicBlock*, 4> ways;
  for (BasicBlock* next : llvm::successors(block)) {
    if (Returns(next)) ways.insert(next);
  }
  return ways.size();
}

BasicBlock* ControlFlow::Meets(BasicBlock* block) const {
  if (!Returns(block) || Ways(block) < 2) return nullptr;
  const llvm::BitVector& after = after_[number_.lookup(block)];
  const unsigned own = after.count();
  for (unsigned i : after.set_bits()) {
    if (after_[i].count() + 1 == own) return blocks_[i];
  }
  return nullptr;
}

std::vector<BasicBlock*> ControlFlow::Decided(BasicBlock* block) const {
  std::vector<BasicBlock*> decided, work;
  if (!Returns(block) || Ways(block) < 2) return decided;
  const BasicBlock* end = Meets(block);
  llvm::SmallPtrSet<BasicBlock*, 32> seen;
  auto add = [&](BasicBlock* from) {
    for (BasicBlock* next : llvm::successors(from)) {
      if (next != end && Returns(next) && seen.insert(next).second) work.push_back(next);
    }
  };
  for (add(block); !work.empty();) {
    BasicBlock* next = work.back();
    work.pop_back();
    decided.push_back(next);
    add(next);
  }
  return decided;
}

}  // namespace farcall::cpu_device::jit
