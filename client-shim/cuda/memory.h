// SPDX-License-Identifier: Apache-2.0
// Device and host memory as the copies see them.
#pragma once

#include <cuda.h>

#include "client-shim/core/memory_map.h"

namespace farcall::client {

// [address, address + bytes) is the application's device memory, inside one allocation.
inline bool IsDeviceRange(CUdeviceptr address, size_t bytes) {
  Allocation found;
  if (!Memory().Holds(address, bytes, &found) || !OnDevice(found)) return false;
  if (found.mirrored) NoteMirrorUse();
  return true;
}

// What is free, or will be once its frees are through, goes back to the server: somebody needs it
// for something else. `context_slot` says on whose behalf. False: there is nothing.
bool GiveUpCredit(int server_device, uint16_t context_slot);

// Page-locked as CUDA sees it: copies to it may land later.
inline bool IsPinned(const void* pointer, size_t bytes) {
  Allocation found;
  return Memory().Holds(reinterpret_cast<uint64_t>(pointer), bytes, &found) && !OnDevice(found);
}

// Host memory that the device has at the same address.
inline bool IsMirroredRange(const void* pointer, size_t bytes) {
  Allocation found;
  return Memory().Holds(reinterpret_cast<uint64_t>(pointer), bytes, &found) && found.mirrored;
}
// Registered memory the device reaches under another address, and may have written there.
inline bool HasAlias(const void* pointer) {
  Allocation found;
  return Memory().Find(reinterpret_cast<uint64_t>(pointer), &found) && !found.mirrored &&
         found.alias != 0;
}

inline bool IsDevicePointer(CUdeviceptr address) {
  Allocation found;
  return Memory().Find(address, &found) && OnDevice(found);
}

}  // namespace farcall::client
