// SPDX-License-Identifier: Apache-2.0
// Memory of cuMemCreate, for who uses it other than by mapping it to an address. All of it under
// UserRanges().mutex().
#pragma once

#include <cstdint>
#include <mutex>

#include "client-shim/core/memory/reservations.h"

namespace farcall::client {

// Live for the application; or nullptr.
PhysicalMemory* FindPhysicalMemory(uint64_t handle);
// Once neither a reference nor a use is left; the record follows those that used the memory.
CUresult ReleaseIfUnused(PhysicalMemory* memory);
// A multicast object that goes lets go of what is bound to it.
void UnbindAll(Multicast* multicast);
// Until the object's team is whole, as CUDA has it: another thread may add the devices that are
// missing. False: the object was released meanwhile.
bool AwaitTeam(std::unique_lock<std::mutex>& lock, uint64_t handle);

}  // namespace farcall::client
