// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/jit/regions/leaves.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include "cpu-device/jit/regions/marks.h"

namespace farcall::cpu_device::jit {

using llvm::BasicBlock;

namespace {

// A way out that is longer than this is none: what it holds runs apart from the others' code.
constexpr size_t kMaxBlocksOut = 64;

bool Meets(const BasicBlock& block) {
  return llvm::any_of(block, [](const llvm::Instruction& i) { return IsMeeting(i); });
}

llvm::DenseSet<const BasicBlock*> BlocksBeforeMeetings(llvm::Function& kernel) {
  llvm::DenseSet<const BasicBlock*> before;
  std::vector<BasicBlock*> work;
  for (BasicBlock& block : kernel)
    if (Meets(block)) work.push_back(&block);
  while (!work.empty()) {
    BasicBlock* block = work.back();
    work.pop_back();
    if (!before.insert(block).second) continue;
    for (BasicBlock* from : llvm::predecessors(block)) work.push_back(from);
  }
  return before;
}

}  // namespace

Leaves::Leaves(llvm::Function& kernel, const Divergence& divergence, const ControlFlow& flow)
    : divergence_(divergence), flow_(flow) {
  for (BasicBlock& block : kernel)
    if (llvm::isa<llvm::ReturnInst>(block.getTerminator())) done_ = &block;
}

std::vector<Leaves::Edge> Leaves::Of(BasicBlock* branch) const {
  std::vector<Edge> edges;
  if (!done_ || !divergence_.Branches(branch)) return edges;
  for (BasicBlock* next : llvm::successors(branch)) {
    if (next == done_) {
      edges.push_back({branch, done_});
      continue;
    }
    if (!flow_.Returns(next)) continue;
    llvm::SetVector<BasicBlock*> way;
    way.insert(next);
    std::vector<Edge> ends;
    bool alone = true;
    for (size_t i = 0; i < way.size() && alone; ++i) {
      BasicBlock* at = way[i];
      alone = at != branch && way.size() <= kMaxBlocksOut && !Meets(*at);
      for (BasicBlock* after : llvm::successors(at))
        if (after == done_)
          ends.push_back({at, after});
        else
          way.insert(after);
    }
    for (size_t i = 0; i < way.size() && alone; ++i)
      for (BasicBlock* from : llvm::predecessors(way[i]))
        alone &= from == branch || way.contains(from);
    if (alone) edges.insert(edges.end(), ends.begin(), ends.end());
  }
  return edges;
}

bool MarkLeaves(llvm::Function& kernel, const Divergence& divergence) {
  const ControlFlow flow(kernel);
  const Leaves leaves(kernel, divergence, flow);
  const llvm::DenseSet<const BasicBlock*> before = BlocksBeforeMeetings(kernel);
  std::vector<Leaves::Edge> edges;
  for (BasicBlock& block : kernel) {
    auto meets_behind = [&](BasicBlock* next) { return before.contains(next); };
    if (llvm::none_of(llvm::successors(&block), meets_behind)) continue;
    for (const Leaves::Edge& edge : leaves.Of(&block)) edges.push_back(edge);
  }
  if (edges.empty()) return false;
  llvm::IRBuilder<> b(kernel.getContext());
  for (const Leaves::Edge& edge : edges) {
    BasicBlock* out = BasicBlock::Create(kernel.getContext(), "leave", &kernel);
    b.SetInsertPoint(out);
    const llvm::FunctionCallee leave = kernel.getParent()->getOrInsertFunction(
        kMarkLeave, llvm::FunctionType::get(b.getVoidTy(), false));
    b.CreateCall(leave)->setDoesNotThrow();
    // As where a fault ends the grid: what the others do does not hang on it.
    b.CreateUnreachable();
    edge.from->getTerminator()->replaceSuccessorWith(edge.to, out);
  }
  return true;
}

}  // namespace farcall::cpu_device::jit
