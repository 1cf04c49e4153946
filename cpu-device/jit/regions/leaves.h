// SPDX-License-Identifier: Apache-2.0
// Threads that end before the others meet again: `if (i >= n) return;`.
#pragma once

#include <llvm/IR/Function.h>

#include "cpu-device/jit/regions/control_flow.h"
#include "cpu-device/jit/regions/divergence.h"

namespace farcall::cpu_device::jit {

// Of a branch that threads leave by different ways, one of which only leads out of `kernel`: the
// edges by which it does. Nothing on it meets, and no other way joins it.
class Leaves {
 public:
  Leaves(llvm::Function& kernel, const Divergence& divergence, const ControlFlow& flow);
  struct Edge {
    llvm::BasicBlock *from, *to;
  };
  std::vector<Edge> Of(llvm::BasicBlock* branch) const;

 private:
  const Divergence& divergence_;
  const ControlFlow& flow_;
  llvm::BasicBlock* done_ = nullptr;
};

// Ends these ways with marks, where others still meet behind the branch. True: `kernel` is another.
bool MarkLeaves(llvm::Function& kernel, const Divergence& divergence);

}  // namespace farcall::cpu_device::jit
