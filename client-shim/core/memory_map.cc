// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/memory_map.h"

#include <mutex>

namespace farcall::client {

MemoryMap& Memory() {
  static MemoryMap* map = new MemoryMap;
  return *map;
}

uint64_t NewBufferId() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1) + 1;
}

void MemoryMap::Insert(Allocation allocation) {
  if (allocation.mirrored && allocation.servers == 0)
    allocation.servers = static_cast<uint16_t>(1u << CurrentServer());
  std::lock_guard lock(mutex_);
  by_base_[allocation.base] = allocation;
}

const Allocation* MemoryMap::FindLocked(uint64_t address) const {
  auto after = by_base_.upper_bound(address);
  if (after == by_base_.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return address - allocation.base < allocation.bytes ? &allocation : nullptr;
}

const Allocation* MemoryMap::HolderLocked(uint64_t address, uint64_t bytes) const {
  auto at = by_base_.upper_bound(address);
  if (at == by_base_.begin()) return nullptr;
  --at;
  const Allocation& first = at->second;
  const uint64_t offset = address - at->first;
  if (offset >= first.bytes || !first.accessible) return nullptr;
  if (bytes <= first.bytes - offset) return &first;
  if (first.mapped_handle == 0) return nullptr;
  for (uint64_t next = at->first + first.bytes;;) {
    ++at;
    if (at == by_base_.end() || at->first != next || at->second.mapped_handle == 0 ||
        !at->second.accessible)
      return nullptr;
    next += at->second.bytes;
    if (bytes <= next - address) return &first;
  }
}

bool MemoryMap::Find(uint64_t address, Allocation* found) const {
  return FindIf(address, [found](const Allocation& allocation) {
    *found = allocation;
    return true;
  });
}

bool MemoryMap::Holds(uint64_t address, uint64_t bytes, Allocation* found) const {
  return HoldsIf(address, bytes, [found](const Allocation& allocation) {
    *found = allocation;
    return true;
  });
}

bool MemoryMap::Remove(uint64_t base, Allocation* removed) {
  std::lock_guard lock(mutex_);
  auto at = by_base_.find(base);
  if (at == by_base_.end()) return false;
  *removed = at->second;
  by_base_.erase(at);
  return true;
}

std::vector<Allocation> MemoryMap::RemoveContext(Context* context) {
  std::lock_guard lock(mutex_);
  std::vector<Allocation> removed;
  for (auto at = by_base_.begin(); at != by_base_.end();) {
    if (at->second.context == context && at->second.kind == MemoryKind::kDevice) {
      removed.push_back(at->second);
      at = by_base_.erase(at);
    } else {
      ++at;
    }
  }
  return removed;
}

void MemoryMap::RemoveOwner(uint64_t owner) {
  std::lock_guard lock(mutex_);
  std::erase_if(by_base_, [&](const auto& entry) { return entry.second.owner == owner; });
}

void MemoryMap::SetSyncMemops(uint64_t base, bool on) {
  std::lock_guard lock(mutex_);
  auto at = by_base_.find(base);
  if (at != by_base_.end()) at->second.sync_memops = on;
}

void MemoryMap::SetAccessible(uint64_t base, bool accessible) {
  std::lock_guard lock(mutex_);
  auto at = by_base_.find(base);
  if (at != by_base_.end()) at->second.accessible = accessible;
}

void MemoryMap::AddServer(uint64_t base) {
  std::lock_guard lock(mutex_);
  auto at = by_base_.find(base);
  if (at != by_base_.end()) at->second.servers |= static_cast<uint16_t>(1u << CurrentServer());
}

void MemoryMap::SetMirrored(uint64_t base, uint64_t alias) {
  std::lock_guard lock(mutex_);
  auto at = by_base_.find(base);
  if (at == by_base_.end()) return;
  at->second.mirrored = alias == 0;
  at->second.alias = alias;
  at->second.servers |= static_cast<uint16_t>(1u << CurrentServer());
}

bool MemoryMap::Overlaps(uint64_t base, uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  auto after = by_base_.upper_bound(base);
  if (after != by_base_.end() && after->first < base + bytes) return true;
  if (after == by_base_.begin()) return false;
  const Allocation& before = std::prev(after)->second;
  return base - before.base < before.bytes;
}

bool HoldsMemory(uint64_t address, uint64_t bytes) {
  Allocation found;
  if (bytes == 0) return true;
  if (!Memory().Holds(address, bytes, &found) || !OnDevice(found)) return false;
  if (found.mirrored) NoteMirrorUse();
  return true;
}

}  // namespace farcall::client
