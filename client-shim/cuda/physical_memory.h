// SPDX-License-Identifier: Apache-2.0
// Memory of cuMemCreate, for who uses it other than by mapping it to an address. All of it under
// UserRanges().mutex().
#pragma once

#include <cstdint>

#include "client-shim/core/reservations.h"

namespace farcall::client {

// Live for the application; or nullptr.
PhysicalMemory* FindPhysicalMemory(uint64_t handle);
// Once neither a reference nor a use is left; the record follows those that used the memory.
CUresult ReleaseIfUnused(PhysicalMemory* memory);

}  // namespace farcall::client
