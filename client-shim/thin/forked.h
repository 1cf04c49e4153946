// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::thin {

// In a child of a process that had begun CUDA. Nothing works there, as CUDA has it, and locks may
// have been held by threads that are no more: none is taken but a ForkLock
// (client-shim/core/report/fork_lock.h).
bool IsForked();

}  // namespace farcall::thin
