// SPDX-License-Identifier: Apache-2.0
// Client-assigned handles: the application's value is the wire value. Lookup takes no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "client-shim/core/session/routing.h"
#include "proto/wire.h"

namespace farcall::client {

enum class HandleState : uint8_t { kLive, kStale, kUnknown };

// One kind's handles. Slots are never given back to the heap, so a lookup may race with anything.
class HandleTable {
 public:
  explicit constexpr HandleTable(HandleKind kind) : kind_(kind) {}

  // 0 = the index space is used up. `object` belongs to the caller and must outlive every lookup.
  uint64_t New(void* object, uint32_t max_index = kMaxHandleIndex);
  HandleState Find(uint64_t handle, void** object) const {
    HandleParts parts = SplitHandle(handle);
    if (parts.kind != kind_ || !HasHandleForm(handle)) return HandleState::kUnknown;
    const Slot* slot = At(parts.index);
    if (slot == nullptr) return HandleState::kUnknown;
    uint32_t state = slot->state.load(std::memory_order_acquire);
    if (state == 0) return HandleState::kUnknown;
    if (state != (static_cast<uint32_t>(parts.generation) << 1 | 1)) return HandleState::kStale;
    *object = slot->object.load(std::memory_order_relaxed);
    if (HasSeveralServers()) [[unlikely]]
      NoteSlot(*slot);
    return HandleState::kLive;
  }
  // The same, where it does not matter why a handle is not live, and its kind is known beforehand.
  template <HandleKind kKind>
  bool FindLive(uint64_t handle, void** object) const {
    if ((handle & kFormMask) != MakeHandle(kKind, 0, 0)) return false;
    const HandleParts parts = SplitHandle(handle);
    std::atomic<Slot*>* segments = segments_.load(std::memory_order_acquire);
    if (segments == nullptr) [[unlikely]]
      return false;
    // Index 0 has a slot as well, which is never live.
    const Slot* segment = segments[parts.index / kSegmentSlots].load(std::memory_order_acquire);
    if (segment == nullptr) [[unlikely]]
      return false;
    const Slot& slot = segment[parts.index % kSegmentSlots];
    if (slot.state.load(std::memory_order_acquire) != (uint32_t{parts.generation} << 1 | 1))
      return false;
    *object = slot.object.load(std::memory_order_relaxed);
    return true;
  }
  // routing.h's note of a live handle, for look-ups by FindLive.
  void Note(uint64_t handle) const {
    if (const Slot* slot = At(SplitHandle(handle).index)) NoteSlot(*slot);
  }
  // False: not live.
  bool Free(uint64_t handle);
  void SetObject(uint64_t handle, void* object);
  // The object that the handle before this one in the same slot had, once; or nullptr.
  void* TakeFormer(uint64_t handle);
  // Frees every live handle whose object this accepts.
  void FreeIf(const std::function<bool(void* object)>& accepts);

 private:
  // What is alike in all handles of a kind: all but index and generation.
  static constexpr uint64_t kFormMask = ~(uint64_t{kMaxHandleIndex} << 4 | uint64_t{0xFFFF} << 28);
  static constexpr uint32_t kSegmentSlots = 4096;
  static constexpr uint32_t kSegments = (kMaxHandleIndex + 1) / kSegmentSlots;
  static constexpr size_t kReuseAfter =
      64;  // freed slots rest a while: stale use is told from reuse
  struct Slot {
    std::atomic<uint32_t> state{0};  // generation << 1 | live
    std::atomic<void*> object{nullptr};
    std::atomic<void*> former{nullptr};
    std::atomic<uint8_t> server{0};  // routing.h: whose it is
  };
  void NoteSlot(const Slot& slot) const {
    if (kind_ != HandleKind::kLibrary && kind_ != HandleKind::kKernel)
      NoteServerIndex(slot.server.load(std::memory_order_relaxed));
  }
  Slot* At(uint32_t index) const {
    std::atomic<Slot*>* segments = segments_.load(std::memory_order_acquire);
    if (segments == nullptr || index == 0 || index > kMaxHandleIndex) return nullptr;
    Slot* segment = segments[index / kSegmentSlots].load(std::memory_order_acquire);
    return segment == nullptr ? nullptr : segment + index % kSegmentSlots;
  }

  HandleKind kind_;
  std::mutex mutex_;
  uint32_t next_index_ = 1;
  std::deque<uint32_t>* free_ = nullptr;
  std::atomic<std::atomic<Slot*>*> segments_{nullptr};
};

inline constexpr size_t kHandleKinds = static_cast<size_t>(HandleKind::kLast) + 1;
// One per kind. Nothing to construct or destroy: usable before and after everything else.
extern std::array<HandleTable, kHandleKinds> g_handle_tables;
inline HandleTable& Handles(HandleKind kind) {
  return g_handle_tables[static_cast<size_t>(kind)];
}

template <HandleKind kKind>
bool FindLive(uint64_t handle, void** object) {
  return g_handle_tables[static_cast<size_t>(kKind)].FindLive<kKind>(handle, object);
}

// The object of a live handle, else nullptr.
template <typename T>
T* FindObject(HandleKind kind, uint64_t handle) {
  void* object = nullptr;
  return Handles(kind).Find(handle, &object) == HandleState::kLive ? static_cast<T*>(object)
                                                                   : nullptr;
}

// For kinds whose lookups may outlive the handle, so that an object cannot be deleted with it: the
// object of the slot's former handle, to be used anew, or nullptr. Every handle of the kind must
// have a T.
template <typename T>
T* FormerObject(HandleKind kind, uint64_t handle) {
  return static_cast<T*>(Handles(kind).TakeFormer(handle));
}

}  // namespace farcall::client
