// SPDX-License-Identifier: Apache-2.0
// Client-assigned handles: the application's value is the wire value. Lookup takes no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "proto/wire.h"

namespace farcall::client {

enum class HandleState : uint8_t { kLive, kStale, kUnknown };

// One kind's handles. Slots are never given back to the heap, so a lookup may race with anything.
class HandleTable {
 public:
  explicit constexpr HandleTable(HandleKind kind) : kind_(kind) {}

  // 0 = the index space is used up. `object` belongs to the caller and must outlive every lookup.
  uint64_t New(void* object, uint32_t max_index = kMaxHandleIndex);
  HandleState Find(uint64_t handle, void** object) const;
  // False: not live.
  bool Free(uint64_t handle);
  void SetObject(uint64_t handle, void* object);

 private:
  static constexpr uint32_t kSegmentSlots = 4096;
  static constexpr uint32_t kSegments = (kMaxHandleIndex + 1) / kSegmentSlots;
  static constexpr size_t kReuseAfter =
      64;  // freed slots rest a while: stale use is told from reuse
  struct Slot {
    std::atomic<uint32_t> state{0};  // generation << 1 | live
    std::atomic<void*> object{nullptr};
  };
  Slot* At(uint32_t index) const;

  HandleKind kind_;
  std::mutex mutex_;
  uint32_t next_index_ = 1;
  std::deque<uint32_t>* free_ = nullptr;
  std::atomic<std::atomic<Slot*>*> segments_{nullptr};
};

// The table of a kind; leaked.
HandleTable& Handles(HandleKind kind);

// The object of a live handle, else nullptr.
template <typename T>
T* FindObject(HandleKind kind, uint64_t handle) {
  void* object = nullptr;
  return Handles(kind).Find(handle, &object) == HandleState::kLive ? static_cast<T*>(object)
                                                                   : nullptr;
}

}  // namespace farcall::client
