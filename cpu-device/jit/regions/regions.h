// SPDX-License-Identifier: Apache-2.0
// From the code of one thread to the code of its block: what lies between two synchronisation
// points becomes a loop over the threads, and what all threads decide alike is done once.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Metadata.h>

namespace farcall::cpu_device::jit {

// Code that all threads enter and leave together, at one place each.
struct Region {
  llvm::BasicBlock* entry = nullptr;
  llvm::BasicBlock* last = nullptr;  // its only way out, to `target`
  llvm::BasicBlock* target = nullptr;
  llvm::SmallVector<llvm::BasicBlock*, 8> blocks;
};

// `kernel` takes a BlockContext and has the calls of marks.h.
//   unordered  the access group of what threads access in no order
//   threads    as many threads as a block can have
//   Result     false: it cannot be, and `kernel` is of no more use
bool FormRegions(llvm::Function& kernel, llvm::MDNode* unordered, uint32_t threads);

}  // namespace farcall::cpu_device::jit
