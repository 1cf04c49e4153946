// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/paths_apart.h"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Function.h>

#include <algorithm>

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

// Higher indices come first, those of a cycle stand together.
PathsApart::PathsApart(llvm::Function& function, llvm::CycleInfo& cycles)
    : cycles_(cycles), context_(&function), order_(context_) {
  order_.compute(cycles);
  for (unsigned i = static_cast<unsigned>(order_.size()); i-- > 0;)
    for (const llvm::Cycle* cycle = cycles.getCycle(order_[i]); cycle;
         cycle = cycle->getParentCycle())
      last_[cycle] = i;
}

void PathsApart::Visit(Search* search, const BasicBlock* to, Label label) const {
  const auto [at, fresh] = search->open.try_emplace(order_.getIndex(to), label);
  if (fresh || at->second == label) return;
  at->second = to;
  search->found.joins.insert(to);
}

// Those of the next turn may leave by any way out.
void PathsApart::LeaveCycle(Search* search, const llvm::Cycle* cycle, Label label) {
  auto [exits, fresh] = exits_.try_emplace(cycle);
  if (fresh) cycle->getExitBlocks(exits->second);
  steps_ += exits->second.size();
  for (const BasicBlock* exit : exits->second) {
    const auto known = search->open.find(order_.getIndex(exit));
    if (known != search->open.end() && known->second != label) search->found.left.insert(cycle);
    Visit(search, exit, label);
  }
}

PathsApart::Found PathsApart::From(const BasicBlock* branch) {
  Search search;
  const auto go = [&](const BasicBlock* from, Label own) {
    for (const BasicBlock* to : llvm::successors(from)) {
      const Label label = own ? own : to;
      if (order_.getIndex(to) < order_.getIndex(from)) {
        Visit(&search, to, label);
        continue;
      }
      // Back to the header of a cycle around both.
      const llvm::Cycle* cycle = cycles_.getCycle(to);
      if (!cycle) continue;  // in an irreducible one alone
      auto [at, fresh] = search.again.try_emplace(last_.lookup(cycle), cycle, label);
      if (fresh || at->second.second == label) continue;
      at->second.second = to;
      search.found.joins.insert(to);
    }
  };
  go(branch, nullptr);
  while (!search.open.empty() || !search.again.empty()) {
    const auto first = search.open.begin();
    if (!search.again.empty() &&
        (search.open.empty() || first->first < search.again.begin()->first)) {
      const auto [cycle, label] = search.again.begin()->second;
      search.again.erase(search.again.begin());
      // A branch in front of the cycle comes into it by its header alone.
      if (cycle->contains(branch)) LeaveCycle(&search, cycle, label);
      continue;
    }
    ++steps_;
    const auto [index, label] = *first;
    search.open.erase(first);
    if (search.open.empty() && search.again.empty()) break;  // all come through here
    go(order_[index], label);
  }
  return std::move(search.found);
}

}  // namespace farcall::cpu_device::jit
