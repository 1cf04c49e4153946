// SPDX-License-Identifier: Apache-2.0
// What compiled code calls where all threads of a block are at a warp operation, or at a barrier
// that reduces.
#pragma once

#include "cpu-device/exec/context.h"

namespace farcall::cpu_device {

uint32_t ThreadsOf(const BlockContext* block);
// Of a warp whose first thread is `first`, the lanes that have not ended.
//   left  by thread: 1, it has ended; null: none has
uint32_t StayingLanes(const uint8_t* left, uint32_t threads, uint32_t first);

// Errors  leaves by RaiseFault: a lane outside of its member mask, or whose group is not complete
void RunBlockWarpOperation(const BlockContext* block, const BlockWarpOperation& operation);

//   predicates  of thread i at i * step, the low byte says it; 0 or 1 where they lie side by side
//   left        as above
uint32_t ReducePredicates(const BlockContext* block, BarrierReduce how, const uint8_t* predicates,
                          uint32_t step, const uint8_t* left);

// The first thread that has not ended, and above it the one past the last; both equal: all have.
uint64_t StayingThreads(const BlockContext* block, const uint8_t* left);

}  // namespace farcall::cpu_device
