// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/session/handles.h"

#include <utility>

#include "client-shim/core/session/session_face.h"

namespace farcall::client {

uint64_t HandleTable::New(void* object, uint32_t max_index) {
  std::lock_guard lock(mutex_);
  if (segments_.load(std::memory_order_relaxed) == nullptr) {
    free_ = new std::deque<uint32_t>;
    segments_.store(new std::atomic<Slot*>[kSegments](), std::memory_order_release);
  }
  uint32_t index;
  if (free_->size() > kReuseAfter || (next_index_ > max_index && !free_->empty())) {
    index = free_->front();
    free_->pop_front();
  } else if (next_index_ <= max_index) {
    index = next_index_++;
    std::atomic<Slot*>& segment = segments_.load(std::memory_order_relaxed)[index / kSegmentSlots];
    if (segment.load(std::memory_order_relaxed) == nullptr)
      segment.store(new Slot[kSegmentSlots](), std::memory_order_release);
  } else {
    return 0;
  }
  Slot* slot = At(index);
  uint32_t generation = ((slot->state.load(std::memory_order_relaxed) >> 1) + 1) & 0xFFFF;
  if (void* former = slot->object.load(std::memory_order_relaxed); former != nullptr)
    slot->former.store(former, std::memory_order_relaxed);
  slot->object.store(object, std::memory_order_relaxed);
  slot->server.store(CurrentServer(), std::memory_order_relaxed);
  slot->state.store(generation << 1 | 1, std::memory_order_release);
  return MakeHandle(kind_, index, static_cast<uint16_t>(generation));
}

bool HandleTable::Free(uint64_t handle) {
  std::lock_guard lock(mutex_);
  void* object = nullptr;
  if (Find(handle, &object) != HandleState::kLive) return false;
  uint32_t index = SplitHandle(handle).index;
  Slot* slot = At(index);
  slot->state.fetch_and(~1u, std::memory_order_release);
  free_->push_back(index);
  return true;
}

void HandleTable::SetObject(uint64_t handle, void* object) {
  Slot* slot = At(SplitHandle(handle).index);
  if (slot != nullptr) slot->object.store(object, std::memory_order_release);
}

void* HandleTable::TakeFormer(uint64_t handle) {
  Slot* slot = At(SplitHandle(handle).index);
  return slot == nullptr ? nullptr : slot->former.exchange(nullptr);
}

void HandleTable::FreeIf(const std::function<bool(void* object)>& accepts) {
  std::lock_guard lock(mutex_);
  for (uint32_t index = 1; index < next_index_; ++index) {
    Slot* slot = At(index);
    bool live = (slot->state.load(std::memory_order_acquire) & 1) != 0;
    if (!live || !accepts(slot->object.load(std::memory_order_acquire))) continue;
    slot->state.fetch_and(~1u, std::memory_order_release);
    free_->push_back(index);
  }
}

namespace {
template <size_t... kKinds>
constexpr std::array<HandleTable, kHandleKinds> MakeTables(std::index_sequence<kKinds...>) {
  return {HandleTable(static_cast<HandleKind>(kKinds))...};
}
}  // namespace

constinit std::array<HandleTable, kHandleKinds> g_handle_tables =
    MakeTables(std::make_index_sequence<kHandleKinds>());

uint64_t NewHandle(HandleKind kind, CUresult* error) {
  uint64_t handle = Handles(kind).New(nullptr);
  *error = handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  return handle;
}

bool CheckHandle(HandleKind kind, uint64_t handle) {
  void* object = nullptr;
  if (Handles(kind).Find(handle, &object) != HandleState::kLive) return false;
  const bool is_kernel = kind == HandleKind::kKernel;
  const Spread spread = HasSeveralServers() ? g_spread.load() : nullptr;
  if (spread == nullptr || (!is_kernel && kind != HandleKind::kLibrary)) [[likely]]
    return true;
  return spread(handle, is_kernel);
}

void FreeHandle(HandleKind kind, uint64_t handle) {
  Handles(kind).Free(handle);
}

}  // namespace farcall::client
