// SPDX-License-Identifier: Apache-2.0
// One kind's wire handles: index -> (generation, native object). Look-ups take no lock, from any
// thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "proto/raise.h"
#include "proto/wire.h"

namespace farcall::server {

// The client assigns indices densely, so one far beyond those seen is a lie: that bounds what a
// peer can make us hold.
class HandleTable {
 public:
  enum class State : uint8_t { kNever = 0, kPending, kLive, kDead, kFailed };
  struct Found {
    State state = State::kNever;
    bool generation_matches = false;
    void* native = nullptr;
    void* extra = nullptr;  // what the server keeps beside the native object
  };

  HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  ~HandleTable() {
    for (uint32_t p = 0; p < used_pages(); ++p) delete pages_[p].load();
  }

  Found Find(uint32_t index, uint16_t generation) const {
    const Entry* entry = At(index);
    if (entry == nullptr) return {};
    uint32_t tag = entry->tag.load(std::memory_order_acquire);
    State state = static_cast<State>(tag >> 16);
    if (state == State::kNever) return {};
    if ((tag & 0xFFFF) != generation) return {.state = state};
    return {state, true, entry->native.load(std::memory_order_relaxed),
            entry->extra.load(std::memory_order_relaxed)};
  }

  // Whatever lives at `index`.
  Found FindNewest(uint32_t index) const {
    const Entry* entry = At(index);
    if (entry == nullptr) return {};
    return Find(index, static_cast<uint16_t>(entry->tag.load(std::memory_order_acquire)));
  }

  // May `index` begin a life of `generation`? Free, dead with another generation, or never made;
  // not absurdly far out.
  bool MayCreate(uint32_t index, uint16_t generation) const {
    if (index == 0 || index > kMaxHandleIndex || index > highest_.load() + kSlack) return false;
    const Entry* entry = At(index);
    if (entry == nullptr) return true;
    uint32_t tag = entry->tag.load(std::memory_order_acquire);
    State state = static_cast<State>(tag >> 16);
    if (state == State::kNever) return true;
    return state == State::kFailed || (state == State::kDead && (tag & 0xFFFF) != generation);
  }

  // Only after MayCreate. `native` null while pending.
  void Set(uint32_t index, uint16_t generation, State state, void* native, void* extra = nullptr) {
    Entry* entry = Make(index);
    entry->native.store(native, std::memory_order_relaxed);
    entry->extra.store(extra, std::memory_order_relaxed);
    entry->tag.store((static_cast<uint32_t>(state) << 16) | generation, std::memory_order_release);
  }
  void SetExtra(uint32_t index, void* extra) { Make(index)->extra.store(extra); }
  void Kill(uint32_t index, uint16_t generation) {
    Set(index, generation, State::kDead, nullptr, nullptr);
  }

  // Every live entry, for teardown. Not beside creates.
  void ForEachLive(const std::function<void(uint32_t, uint16_t, void*, void*)>& visit) const {
    for (uint32_t p = 0; p < used_pages(); ++p) {
      const Page* page = pages_[p].load(std::memory_order_acquire);
      if (page == nullptr) continue;
      for (uint32_t i = 0; i < kPageEntries; ++i) {
        const Entry& entry = (*page)[i];
        uint32_t tag = entry.tag.load(std::memory_order_acquire);
        if (static_cast<State>(tag >> 16) != State::kLive) continue;
        visit(p * kPageEntries + i, tag & 0xFFFF, entry.native.load(), entry.extra.load());
      }
    }
  }

 private:
  static constexpr uint32_t kPageEntries = 4096;
  static constexpr uint32_t kPages = (kMaxHandleIndex + 1) / kPageEntries;
  static constexpr uint32_t kSlack = 4096;
  struct Entry {
    std::atomic<uint32_t> tag{0};  // state << 16 | generation
    std::atomic<void*> native{nullptr};
    std::atomic<void*> extra{nullptr};
  };
  using Page = std::array<Entry, kPageEntries>;

  uint32_t used_pages() const { return highest_.load() / kPageEntries + 1; }
  const Entry* At(uint32_t index) const {
    if (index > kMaxHandleIndex) return nullptr;
    const Page* page = pages_[index / kPageEntries].load(std::memory_order_acquire);
    return page == nullptr ? nullptr : &(*page)[index % kPageEntries];
  }
  Entry* Make(uint32_t index) {
    std::atomic<Page*>& slot = pages_[index / kPageEntries];
    Page* page = slot.load(std::memory_order_acquire);
    if (page == nullptr) {
      std::lock_guard lock(growth_);
      page = slot.load(std::memory_order_acquire);
      if (page == nullptr) {
        page = new Page();
        slot.store(page, std::memory_order_release);
      }
    }
    RaiseTo(&highest_, index);
    return &(*page)[index % kPageEntries];
  }

  std::array<std::atomic<Page*>, kPages> pages_{};
  std::atomic<uint32_t> highest_{0};
  std::mutex growth_;
};

}  // namespace farcall::server
