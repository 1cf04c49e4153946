// SPDX-License-Identifier: Apache-2.0
// Loops over the threads of a block around the regions of a kernel, its marks resolved.
#pragma once

#include "cpu-device/jit/regions/region_values.h"

namespace farcall::cpu_device::jit {

class ThreadLoops {
 public:
  ThreadLoops(llvm::Function& kernel, RegionPlan& plan, const RegionValues& values,
              llvm::MDNode* unordered);
  void Make();

 private:
  void MakeLoop(const Region& region, llvm::BasicBlock* before);
  void StoreAhead(const Region& region, llvm::BasicBlock* begin);
  llvm::Value* Ahead(const Region& region, llvm::BasicBlock* begin, llvm::Value* value);
  void AddRange();
  void FindGuarded();
  llvm::BasicBlock* MakeHead(llvm::BasicBlock* begin, llvm::BasicBlock* entry,
                             llvm::BasicBlock* next);
  bool ResolveLeaves(const Region& region, llvm::BasicBlock* next);
  llvm::BasicBlock* AskWhoStays(llvm::BasicBlock* target);
  void SetCounters(llvm::IRBuilder<>& b);
  void BeginRow(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* linear);
  bool OncePerBlock(const Region& region) const;
  void ResolveMarks();

  llvm::Function& kernel_;
  RegionPlan& plan_;
  const RegionValues& values_;
  llvm::MDNode* unordered_;
  llvm::Value* sizes_[3];
  // Where threads end before others: the first that stays, by x, y, z and number, one past the
  // last, and where its row ends or the range does.
  llvm::AllocaInst* first_[4] = {};
  llvm::AllocaInst* end_ = nullptr;
  llvm::AllocaInst* row_end_ = nullptr;
  llvm::DenseSet<const llvm::BasicBlock*> guarded_;  // entries that not all threads come to
  llvm::DenseMap<llvm::Value*, llvm::Value*> ahead_;
};

// The grid may have been stopped: asks so at `mark`, a call that it replaces.
void ResolvePoll(llvm::CallInst* mark);

}  // namespace farcall::cpu_device::jit
