// SPDX-License-Identifier: Apache-2.0
// The unit a host thread works on: the blocks of one cluster, nearly always a single block.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu-device/exec/block.h"

namespace farcall::cpu_device {

class Cluster {
 public:
  // Prepares to run cluster `index` of `launch`'s grid. False: out of memory.
  bool Start(const BlockShape& shape, LaunchContext* launch, uint64_t index, uint32_t smid);
  // Runs the blocks in turns until all are done, or none makes progress, or other
  // clusters should have a turn.
  StepResult Step();
  // As Block::RunNext has it.
  void RunNext() { blocks_[0]->RunNext(); }
  bool moved() const { return moved_; }  // whether any thread got on in the last Step

 private:
  ClusterContext context_;
  std::vector<std::unique_ptr<Block>> blocks_;  // kept for reuse: may be more than run
  uint32_t done_ = 0;                           // ranks
  bool moved_ = false;
};

uint64_t ClustersOf(const LaunchContext& launch);

// A thread that had arrived in this phase, or not, is gone.
void LeaveCluster(ClusterContext* cluster, const ThreadContext& thread);

// Where a .shared::cluster address lies: bits 24 to 31 are a rank and one, or 0 for the block's
// own. nullptr if it names no block or leaves its shared memory.
uint8_t* ClusterPointer(BlockContext* block, uint64_t address, uint64_t bytes);

// The block of the cluster whose shared memory holds `bytes` at a generic address; nullptr if none.
BlockContext* OwnerOfShared(BlockContext* block, uint64_t address, uint64_t bytes);

}  // namespace farcall::cpu_device
