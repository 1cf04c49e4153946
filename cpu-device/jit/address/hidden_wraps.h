// SPDX-License-Identifier: Apache-2.0
// Keeps LLVM 19's vectoriser from believing that numbers of few bits do not wrap around.
#pragma once

#include <llvm/IR/PassManager.h>

namespace farcall::cpu_device::jit {

// Before a vector loop LLVM checks what it has assumed: that i * 3 in 7 bits does not wrap, where
// the address is (i * 3 & 127). For such a number that begins at zero and grows, the check looks at
// the loop's count alone and forgets the product with the stride (SCEVExpander::
// generateOverflowCheck, "Checking <u 0 is always false"), and 128 turns are let through. A freeze
// before the number is cut to its bits hides the stride, in innermost loops.
class HiddenWrapsPass : public llvm::PassInfoMixin<HiddenWrapsPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace farcall::cpu_device::jit
