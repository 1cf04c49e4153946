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
  bool OncePerBlock(const Region& region) const;
  void ResolveMarks();

  llvm::Function& kernel_;
  RegionPlan& plan_;
  const RegionValues& values_;
  llvm::MDNode* unordered_;
  llvm::Value* sizes_[3];
};

// The grid may have been stopped: asks so at `mark`, a call that it replaces.
void ResolvePoll(llvm::CallInst* mark);

}  // namespace farcall::cpu_device::jit
