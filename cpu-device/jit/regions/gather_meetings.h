// SPDX-License-Identifier: Apache-2.0
// Fewer pieces: threads meet no more often than what they read and write asks for, and products of
// matrices wait for one another, so that they are done in one go.
#pragma once

#include <llvm/IR/Function.h>

namespace farcall::cpu_device::jit {

// In the code of one thread, before it is cut.
void GatherMeetings(llvm::Function& kernel);

}  // namespace farcall::cpu_device::jit
