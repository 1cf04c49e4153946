// SPDX-License-Identifier: Apache-2.0
// Device and host memory as the copies see them.
#pragma once

#include <cuda.h>

#include <optional>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

// [address, address + bytes) is the application's device memory, inside one allocation.
inline bool IsDeviceRange(CUdeviceptr address, size_t bytes) {
  std::optional<Allocation> mirror;
  const bool held = Memory().HoldsIf(address, bytes, [&mirror](const Allocation& found) {
    if (!OnDevice(found)) return false;
    if (found.mirrored) mirror = found;
    return true;
  });
  if (mirror) {
    SettleMirror(*mirror);
    NoteMirrorUse();
  }
  return held;
}

// What is free, or will be once its frees are through, goes back to the server: somebody needs it
// for something else. `context_slot` says on whose behalf. False: there is nothing.
bool GiveUpCredit(int server_device, uint16_t context_slot);

// Whether a grant was ever refused: from then on a call that makes the driver take memory of its
// own had better be waited for.
bool MemoryRanOut();

// A question by which the driver takes memory of its own (it loads code): what the device lacks may
// lie unspent here. Asked once more when that has gone back.
template <typename Ask>
CUresult AskWithRoom(Ask ask) {
  CUresult status = ask();
  const Context* context =
      status == CUDA_ERROR_OUT_OF_MEMORY ? ContextFor(CurrentSession()) : nullptr;
  if (context == nullptr || !GiveUpCredit(context->server_device, context->slot)) return status;
  return ask();
}

// Page-locked as CUDA sees it: copies to it may land later.
inline bool IsPinned(const void* pointer, size_t bytes) {
  return Memory().HoldsIf(reinterpret_cast<uint64_t>(pointer), bytes,
                          [](const Allocation& found) { return !OnDevice(found); });
}

// Host memory that the device has at the same address.
inline bool IsMirroredRange(const void* pointer, size_t bytes) {
  return Memory().HoldsIf(reinterpret_cast<uint64_t>(pointer), bytes, [](const Allocation& found) {
    return found.mirrored && OnDevice(found);
  });
}
// Registered memory the device reaches under another address, and may have written there.
inline bool HasAlias(const void* pointer) {
  return Memory().FindIf(reinterpret_cast<uint64_t>(pointer), [](const Allocation& found) {
    return !found.mirrored && found.alias != 0;
  });
}

inline bool IsDevicePointer(CUdeviceptr address) {
  return Memory().FindIf(address, [](const Allocation& found) { return OnDevice(found); });
}

// Memory that the host reads too: page-locked or managed.
inline bool IsHostReadable(CUdeviceptr address) {
  return Memory().FindIf(address,
                         [](const Allocation& found) { return found.kind != MemoryKind::kDevice; });
}
// The same, and copies of it are the device's.
inline bool IsMappedHost(CUdeviceptr address) {
  return Memory().FindIf(address, [](const Allocation& found) {
    return found.kind != MemoryKind::kDevice && OnDevice(found);
  });
}
// Host memory to CUDA's copies: page-locked, or nothing of CUDA's.
inline bool IsHostMemory(CUdeviceptr address) {
  return !Memory().FindIf(address, [](const Allocation& found) {
    return found.kind != MemoryKind::kHostOwned && found.kind != MemoryKind::kHostRegistered;
  });
}

// Memory that only the device has, where a call names the host's: CUDA's driver goes by the
// address, and TensorFlow uploads so from integers that it takes to be the host's.
inline bool IsDeviceAlone(const void* pointer) {
  return Memory().FindIf(reinterpret_cast<uint64_t>(pointer),
                         [](const Allocation& found) { return found.kind == MemoryKind::kDevice; });
}

// Whether one side of a copy is the device's. As CUDA has it with unified addresses, the address
// decides and not what the call says of it: device memory may be named as the host's, and
// page-locked memory that has no place on the device as the device's.
inline bool SideOnDevice(CUmemorytype type, CUdeviceptr address) {
  const auto* pointer = reinterpret_cast<const void*>(address);
  if (type == CU_MEMORYTYPE_HOST) return IsDeviceAlone(pointer);
  return type == CU_MEMORYTYPE_UNIFIED ? IsDevicePointer(address) : !IsPinned(pointer, 1);
}

}  // namespace farcall::client
