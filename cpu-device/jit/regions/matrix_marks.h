// SPDX-License-Identifier: Apache-2.0
// Products and loads of matrices of a block whose threads are all there.
#pragma once

#include "cpu-device/jit/regions/region_values.h"

namespace farcall::cpu_device::jit {

// Marks that follow one another become one call of the runtime, with a table of what to do.
void ResolveMatrixMarks(llvm::Function& kernel, const RegionValues& values);

}  // namespace farcall::cpu_device::jit
