// SPDX-License-Identifier: Apache-2.0
// Leaves registers without the zero that nobody reads.
#pragma once

#include <llvm/IR/PassManager.h>

namespace farcall::cpu_device::jit {

// Emitter gives each register a zero at the start of the thread. Where a register is written at one
// other place, which comes before all that read it, as almost all are, the zero goes: a register
// with two writes has LLVM look for the blocks where they meet, through the whole kernel for each,
// which took minutes for kernels of many registers and blocks.
class FirstValuesPass : public llvm::PassInfoMixin<FirstValuesPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
  static bool isRequired() { return true; }
};

}  // namespace farcall::cpu_device::jit
