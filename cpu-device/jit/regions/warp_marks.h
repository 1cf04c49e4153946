// SPDX-License-Identifier: Apache-2.0
// Warp operations of a block whose threads are all there.
#pragma once

#include "cpu-device/jit/regions/region_values.h"

namespace farcall::cpu_device::jit {

// Of marks whose predicate nobody reads, gives the value alone.
void NarrowWarpMarks(llvm::Function& kernel);

// Marks become calls of the runtime, which does the operation for all warps of the block.
void ResolveWarpMarks(llvm::Function& kernel, const RegionValues& values);

}  // namespace farcall::cpu_device::jit
