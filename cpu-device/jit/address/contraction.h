// SPDX-License-Identifier: Apache-2.0
// Makes fmas of products and sums that PTX lets be one.
#pragma once

#include <llvm/IR/PassManager.h>

namespace farcall::cpu_device::jit {

// PTX ISA, add, sub, mul: without a rounding modifier a product and the sum it goes into may become
// one fma, as ptxas makes them. Emitter marks such operations with `contract`. Done here once and
// early, not by the code generator: how a kernel is optimised must not change its results.
class ContractionPass : public llvm::PassInfoMixin<ContractionPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
  static bool isRequired() { return true; }
};

}  // namespace farcall::cpu_device::jit
