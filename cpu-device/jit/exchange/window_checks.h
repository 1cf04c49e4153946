// SPDX-License-Identifier: Apache-2.0
// Moves checks of addresses out of loops over threads, so that LLVM can vectorise them.
#pragma once

#include <llvm/IR/PassManager.h>

namespace farcall::cpu_device::jit {

// Each access to global memory stands behind a compare with the device's window and, should it lie
// outside, a call of fc_rt_check. In an innermost loop whose addresses are all affine in its
// counter the first and the last address tell of all between. The loop is made twice: without
// checks, taken where both ends of every access lie in the window, and as it was, for all else:
// addresses of other memory, and those that fault.
class WindowChecksPass : public llvm::PassInfoMixin<WindowChecksPass> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace farcall::cpu_device::jit
