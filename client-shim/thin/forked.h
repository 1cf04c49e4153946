// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace farcall::thin {

// In a child of a process that used this library. Nothing works there, as CUDA has it, and locks
// may have been held by threads that are no more: none is taken.
bool IsForked();

}  // namespace farcall::thin
