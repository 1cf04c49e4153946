// SPDX-License-Identifier: Apache-2.0
// Where hundreds of accesses of a loop each have a block of their own that raises their fault, they
// get one: what LLVM does to a loop grows with its ways out.
#pragma once

#include <llvm/IR/PassManager.h>

namespace farcall::cpu_device::jit {

class MergeFaultsPass : public llvm::PassInfoMixin<MergeFaultsPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& manager);
};

}  // namespace farcall::cpu_device::jit
