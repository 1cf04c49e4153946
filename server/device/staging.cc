// SPDX-License-Identifier: Apache-2.0
// Slots of staging memory.
#include "server/device/staging.h"

#include <sys/mman.h>

#include <cstdlib>

namespace farcall::server {

SlotPool::SlotPool(const DriverApi& api, size_t slot_bytes, size_t max_slots, size_t slots_per_slab)
    : api_(api), slot_bytes_(slot_bytes), max_slots_(max_slots), slots_per_slab_(slots_per_slab) {}

SlotPool::~SlotPool() {
  // The registrations go with the process: the driver may be past answering here.
  for (Slab& slab : slabs_)
    if (slab.pinned_in == nullptr) munmap(slab.base, slab.bytes);
}

SlotPool::Slot SlotPool::Take(bool overflow) {
  std::lock_guard lock(mutex_);
  if (free_.empty() && made_ < max_slots_) {
    size_t bytes = slot_bytes_ * slots_per_slab_;
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base != MAP_FAILED) {
      madvise(base, bytes, MADV_HUGEPAGE);
      slabs_.push_back({static_cast<std::byte*>(base), bytes});
      for (size_t i = slots_per_slab_; i-- > 0;)
        free_.push_back(static_cast<std::byte*>(base) + i * slot_bytes_);
      made_ += slots_per_slab_;
    }
  }
  if (!free_.empty()) {
    Slot slot{free_.back(), false};
    free_.pop_back();
    ++taken_;
    return slot;
  }
  if (!overflow) return {};
  auto* data = static_cast<std::byte*>(std::malloc(slot_bytes_));
  if (data == nullptr) return {};
  ++taken_;
  return {data, true};
}

void SlotPool::Put(Slot slot) {
  std::lock_guard lock(mutex_);
  --taken_;
  if (slot.from_heap) {
    std::free(slot.data);
    return;
  }
  free_.push_back(slot.data);
}

void SlotPool::Pin(const std::byte* data, CUcontext context) {
  std::lock_guard lock(mutex_);
  for (Slab& slab : slabs_) {
    if (data < slab.base || data >= slab.base + slab.bytes) continue;
    if (slab.tried) return;
    slab.tried = true;
    if (api_.cuMemHostRegister_v2 != nullptr &&
        api_.cuMemHostRegister_v2(slab.base, slab.bytes, CU_MEMHOSTREGISTER_PORTABLE) ==
            CUDA_SUCCESS)
      slab.pinned_in = context;
    return;
  }
}

void SlotPool::ForgetContext(CUcontext context) {
  std::lock_guard lock(mutex_);
  for (Slab& slab : slabs_) {
    if (slab.pinned_in != context) continue;
    api_.cuMemHostUnregister(slab.base);
    slab.pinned_in = nullptr;
    slab.tried = false;
  }
}

size_t SlotPool::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace farcall::server
