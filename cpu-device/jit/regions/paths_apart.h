// SPDX-License-Identifier: Apache-2.0
// Where threads that leave a block by different ways come together again.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/GenericUniformityImpl.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CycleInfo.h>
#include <llvm/IR/SSAContext.h>

#include <map>

namespace farcall::cpu_device::jit {

// LLVM 19's own search ends early where paths of one label follow each other in its order, and
// misses places behind (GenericSyncDependenceAnalysis, its floor). This one goes on until one block
// is left that all have to come through. It is right where every cycle is reducible.
class PathsApart {
 public:
  PathsApart(llvm::Function& function, llvm::CycleInfo& cycles);

  struct Found {
    llvm::SmallPtrSet<const llvm::BasicBlock*, 8> joins;  // reached by different ways
    llvm::SmallPtrSet<const llvm::Cycle*, 4> left;        // left in different turns
  };
  Found From(const llvm::BasicBlock* branch);
  // Blocks that all searches have gone through so far: in large kernels whose ways stay apart they
  // grow with the square of the blocks.
  uint64_t steps() const { return steps_; }

 private:
  // A block is labelled by the last one in which ways that lead to it came together, or began.
  using Label = const llvm::BasicBlock*;
  struct Search {
    std::map<unsigned, Label, std::greater<>> open;  // by index: blocks to go on from
    // Of cycles whose header is reached again, by the last index in it.
    std::map<unsigned, std::pair<const llvm::Cycle*, Label>, std::greater<>> again;
    Found found;
  };
  void Visit(Search* search, const llvm::BasicBlock* to, Label label) const;
  void LeaveCycle(Search* search, const llvm::Cycle* cycle, Label label);

  llvm::CycleInfo& cycles_;
  const llvm::SSAContext context_;
  llvm::ModifiedPostOrder<llvm::SSAContext> order_;
  uint64_t steps_ = 0;
  llvm::DenseMap<const llvm::Cycle*, llvm::SmallVector<llvm::BasicBlock*, 4>> exits_;
  llvm::DenseMap<const llvm::Cycle*, unsigned> last_;  // the lowest index of its blocks
};

}  // namespace farcall::cpu_device::jit
