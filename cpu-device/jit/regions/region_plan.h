// SPDX-License-Identifier: Apache-2.0
// Where the code of a thread is cut.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>

#include <vector>

#include "cpu-device/jit/regions/control_flow.h"
#include "cpu-device/jit/regions/divergence.h"
#include "cpu-device/jit/regions/regions.h"

namespace farcall::cpu_device::jit {

// The function after it is all regions, but for its first block and the *common* blocks, which run
// once for the block: a meeting, a poll, a branch that all threads take alike, the return.
class RegionPlan {
 public:
  RegionPlan(llvm::Function& kernel, const Divergence& divergence, const llvm::CycleInfo& cycles);
  // False: threads that meet may not have come there together.
  bool Make();
  std::vector<Region>& regions() { return regions_; }
  // -1 for a common block.
  int RegionOf(const llvm::BasicBlock* block) const {
    auto found = owner_.find(block);
    return found == owner_.end() ? -1 : found->second;
  }

 private:
  bool FindCommonBranches();
  void AddHeaders();
  void Cut();
  void SplitEdges();
  bool Fill();
  bool Grow(int region, llvm::BasicBlock* entry, llvm::BasicBlock** shared);
  bool Close(Region* region);

  llvm::Function& kernel_;
  const Divergence& divergence_;
  const llvm::CycleInfo& cycles_;
  ControlFlow flow_;
  std::vector<llvm::Instruction*> meetings_;
  std::vector<llvm::Instruction*> branches_;  // of common blocks
  llvm::SetVector<llvm::BasicBlock*> entries_;
  llvm::DenseSet<const llvm::BasicBlock*> common_;
  llvm::DenseMap<const llvm::BasicBlock*, int> owner_;
  std::vector<Region> regions_;
};

}  // namespace farcall::cpu_device::jit
