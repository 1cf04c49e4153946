// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/control_flow.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

// Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", on the edges turned round.
ControlFlow::ControlFlow(llvm::Function& function) {
  for (BasicBlock& block : function)
    if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) Number(&block);
  const auto count = static_cast<unsigned>(blocks_.size());
  behind_.assign(count, kUnknown);
  for (bool changed = true; changed;) {
    changed = false;
    // Ends first, which have the highest numbers.
    for (unsigned i = count; i-- > 0;) {
      unsigned common = llvm::succ_empty(blocks_[i]) ? count : kUnknown;
      for (BasicBlock* next : llvm::successors(blocks_[i])) {
        auto at = number_.find(next);
        if (at == number_.end() || behind_[at->second] == kUnknown) continue;
        common = common == kUnknown ? at->second : Common(common, at->second);
      }
      if (common != behind_[i]) {
        behind_[i] = common;
        changed = true;
      }
    }
  }
}

// All blocks that lead to `end`, each after those that lead to it alone.
void ControlFlow::Number(BasicBlock* end) {
  std::vector<std::pair<BasicBlock*, llvm::pred_iterator>> way;
  auto enter = [&](BasicBlock* block) {
    if (number_.try_emplace(block, 0).second) way.emplace_back(block, llvm::pred_begin(block));
  };
  for (enter(end); !way.empty();) {
    auto& [block, before] = way.back();
    if (before != llvm::pred_end(block)) {
      enter(*before++);
      continue;
    }
    number_[block] = static_cast<unsigned>(blocks_.size());
    blocks_.push_back(block);
    way.pop_back();
  }
}

// The first that is behind both; past the last: nothing is.
unsigned ControlFlow::Common(unsigned a, unsigned b) const {
  while (a != b) {
    unsigned& lower = a < b ? a : b;
    lower = behind_[lower];
  }
  return a;
}

unsigned ControlFlow::Ways(BasicBlock* block) const {
  llvm::SmallPtrSet<BasicBlock*, 4> ways;
  for (BasicBlock* next : llvm::successors(block))
    if (Returns(next)) ways.insert(next);
  return ways.size();
}

BasicBlock* ControlFlow::Meets(BasicBlock* block) const {
  if (!Returns(block) || Ways(block) < 2) return nullptr;
  const unsigned behind = behind_[number_.lookup(block)];
  return behind < blocks_.size() ? blocks_[behind] : nullptr;
}

std::vector<BasicBlock*> ControlFlow::Decided(BasicBlock* block) const {
  std::vector<BasicBlock*> decided, work;
  if (!Returns(block) || Ways(block) < 2) return decided;
  const BasicBlock* end = Meets(block);
  llvm::SmallPtrSet<BasicBlock*, 32> seen;
  auto add = [&](BasicBlock* from) {
    for (BasicBlock* next : llvm::successors(from))
      if (next != end && Returns(next) && seen.insert(next).second) work.push_back(next);
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
