// SPDX-License-Identifier: Apache-2.0
// Every address range the application got from CUDA: answers pointer questions and chooses copy
// directions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "client-shim/core/memory/node_allocator.h"
#include "client-shim/core/session/contexts.h"
#include "client-shim/core/session/routing.h"
#include "transport/sync.h"

namespace farcall::client {

struct MemPool;

enum class MemoryKind : uint8_t { kDevice, kHostOwned, kHostRegistered, kManaged };

struct Allocation {
  uint64_t base = 0;
  uint64_t bytes = 0;          // as asked
  uint64_t charged_bytes = 0;  // of credit
  MemoryKind kind = MemoryKind::kDevice;
  int server_device = 0;
  Context* context = nullptr;
  uint64_t id = 0;     // CU_POINTER_ATTRIBUTE_BUFFER_ID
  unsigned flags = 0;  // host memory: as asked
  bool sync_memops = false;
  bool mirrored = false;  // host memory the device has at the same address (cuda/state/mirror.h)
  uint16_t servers = 0;   // of mirrored memory: whose devices reach it, a bit each (routing.h)
  uint64_t alias = 0;     // where the device has registered memory; 0: nowhere
  int device = 0;         // as the application counts
  uint64_t mapped_handle = 0;  // of the physical memory the application mapped here; 0: no mapping
  bool accessible = true;      // a mapping without access may not be touched
  unsigned handle_types = 0;   // it may be exported as
  MemPool* pool = nullptr;     // it counts there
  bool borrowed = false;       // of an IPC handle: closed, not freed
  uint64_t owner = 0;          // a module's handle: a global, not the application's to free
};

inline bool IsMirroredBy(const Allocation& allocation, uint8_t server) {
  return (allocation.servers >> server & 1) != 0;
}
// Whether its address means something to the device: copies there are the device's.
// To a server that does not mirror it, mirrored memory is the host's.
inline bool OnDevice(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::kDevice) return true;
  return allocation.mirrored && (!HasSeveralServers() || IsMirroredBy(allocation, CurrentServer()));
}
// Work that may use mirrored memory is about to be put on some stream (cuda/state/mirror.cc).
void NoteMirrorUse();
void SettleMirror(const Allocation& allocation);

class MemoryMap {
 public:
  void Insert(Allocation allocation);
  // The allocation that holds `address`.
  bool Find(uint64_t address, Allocation* found) const;
  // [address, address + bytes) lies inside one allocation, or in mappings that touch.
  bool Holds(uint64_t address, uint64_t bytes, Allocation* found) const;
  // The same where it is so and `matches` says yes to the allocation, which is not copied: copies
  // between host and device ask this twice each. `matches` runs under the map's lock.
  template <typename Matches>
  bool FindIf(uint64_t address, Matches matches) const {
    NoteAddress(address);
    std::lock_guard lock(mutex_);
    const Allocation* found = FindLocked(address);
    return found != nullptr && matches(*found);
  }
  template <typename Matches>
  bool HoldsIf(uint64_t address, uint64_t bytes, Matches matches) const {
    NoteAddress(address);
    std::lock_guard lock(mutex_);
    const Allocation* found = HolderLocked(address, bytes);
    return found != nullptr && matches(*found);
  }
  // Removes the allocation that starts exactly at `base`.
  bool Remove(uint64_t base, Allocation* removed);
  std::vector<Allocation> RemoveContext(Context* context);
  void RemoveOwner(uint64_t owner);
  void SetSyncMemops(uint64_t base, bool on);
  void SetAccessible(uint64_t base, bool accessible);
  // `alias` 0: mirrored at its own address.
  void SetMirrored(uint64_t base, uint64_t alias);
  // The present call's server mirrors it, too.
  void AddServer(uint64_t base);
  // Some allocation overlaps the range.
  bool Overlaps(uint64_t base, uint64_t bytes) const;

 private:
  // nullptr: none.
  const Allocation* FindLocked(uint64_t address) const;
  const Allocation* HolderLocked(uint64_t address, uint64_t bytes) const;

  mutable Mutex mutex_;
  std::map<uint64_t, Allocation, std::less<>, NodeAllocator<std::pair<const uint64_t, Allocation>>>
      by_base_;
};

// The process's; leaked.
MemoryMap& Memory();
uint64_t NewBufferId();

}  // namespace farcall::client
