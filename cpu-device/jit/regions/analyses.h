// SPDX-License-Identifier: Apache-2.0
// What is known of the code of one thread; gone when it changes.
#pragma once

#include "cpu-device/jit/regions/control_flow.h"
#include "cpu-device/jit/regions/divergence.h"

namespace farcall::cpu_device::jit {

struct Analyses {
  explicit Analyses(llvm::Function& kernel)
      : tree(kernel), cycles(kernel), divergence(kernel, tree, cycles.info) {}
  struct Cycles {
    explicit Cycles(llvm::Function& kernel) { info.compute(kernel); }
    llvm::CycleInfo info;
  };
  llvm::DominatorTree tree;
  Cycles cycles;
  Divergence divergence;
};

}  // namespace farcall::cpu_device::jit
