// SPDX-License-Identifier: Apache-2.0
// Host memory that device memory is swapped to: one slab a chunk, pinned, kept for the next time
// until trimmed.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "generated/server/driver_api.h"

namespace farcall::server {

//   Thread  any
class HostSlabs {
 public:
  explicit HostSlabs(const DriverApi& api) : api_(api) {}
  ~HostSlabs();
  HostSlabs(const HostSlabs&) = delete;

  // Null: the host has no memory. `context` is current; what cannot be pinned is slower, no more.
  std::byte* Take(uint64_t bytes, CUcontext context);
  void Put(std::byte* slab);
  // What nothing lies in goes back to the host. Makes contexts current.
  void Trim();
  // What was pinned in a context goes with it.
  void ForgetContext(CUcontext context);

 private:
  struct Slab {
    uint64_t bytes = 0;
    CUcontext pinned_in = nullptr;
    bool taken = false;
  };
  void Pin(std::byte* base, Slab* slab, CUcontext context);

  const DriverApi& api_;
  std::mutex mutex_;
  std::map<std::byte*, Slab> slabs_;
};

}  // namespace farcall::server
