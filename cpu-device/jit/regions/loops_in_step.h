// SPDX-License-Identifier: Apache-2.0
// Loops that threads go through each for itself, over memory that lies side by side for neighbours:
// `for (i = thread; i < n; i += threads) sum += a[i];`.
#pragma once

#include <llvm/IR/Function.h>

namespace farcall::cpu_device::jit {

// Lets the block's threads go turn by turn together, those that have left the loop looking on, so
// that a turn becomes a loop over threads: vectors, and memory read in its order. True: `kernel` is
// another.
bool RunLoopsInStep(llvm::Function& kernel);

}  // namespace farcall::cpu_device::jit
