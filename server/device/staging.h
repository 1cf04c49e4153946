// SPDX-License-Identifier: Apache-2.0
// Host memory between the lanes and the device: slots of equal size, pinned once a context exists.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "generated/server/driver_api.h"

namespace farcall::server {

// Slots cut from slabs that are made on demand and kept. Past the bound a slot comes from the heap,
// if the caller may.
//   Thread  any
class SlotPool {
 public:
  struct Slot {
    std::byte* data = nullptr;
    bool from_heap = false;
    explicit operator bool() const { return data != nullptr; }
  };

  SlotPool(const DriverApi& api, size_t slot_bytes, size_t max_slots, size_t slots_per_slab);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;

  // Empty if all are taken, unless `overflow`.
  Slot Take(bool overflow);
  void Put(Slot slot);
  // Pins the slab of `data` for DMA if that has not been tried. A context is current. Failure only
  // costs speed.
  void Pin(const std::byte* data, CUcontext context);
  // What was pinned in a context goes with it.
  void ForgetContext(CUcontext context);

  size_t slot_bytes() const { return slot_bytes_; }
  size_t taken() const;

 private:
  struct Slab {
    std::byte* base = nullptr;
    size_t bytes = 0;
    CUcontext pinned_in = nullptr;
    bool tried = false;
  };

  const DriverApi& api_;
  const size_t slot_bytes_, max_slots_, slots_per_slab_;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<std::byte*> free_;
  size_t made_ = 0;
  size_t taken_ = 0;
};

}  // namespace farcall::server
