// SPDX-License-Identifier: Apache-2.0
// Host memory of the application's that kernels may reach: a copy at the same address here, and
// what both sides last agreed on. Partner: client-shim/cuda/state/mirror.cc.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/codec.h"
#include "proto/wire.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

//   Thread  any
class Mirrors {
 public:
  Mirrors(const DriverApi& api, MemoryBroker& broker) : api_(api), broker_(broker) {}
  ~Mirrors();
  Mirrors(const Mirrors&) = delete;

  // Maps memory at the very address and has the driver lock it. `device` >= 0: charged there, as
  // managed memory is; else to the vGPU's host memory.
  //   Errors  INVALID_VALUE (outside the host windows), OUT_OF_MEMORY, NOT_SUPPORTED (the address
  //           is taken here, or the device would use another)
  CUresult Create(uint64_t address, uint64_t bytes, int device, std::string* detail);
  // The same in memory that the client can map as well; nothing of it crosses. *descriptor: to be
  // closed.
  CUresult Share(uint64_t address, uint64_t bytes, int device, int* descriptor,
                 std::string* detail);
  // A variable of the driver's that the host may touch, `valid_bytes` at `memory`, shown to the
  // client at `address`, which no device uses. `owner`: the library's wire handle.
  CUresult Adopt(uint64_t address, uint64_t bytes, CUdeviceptr memory, uint64_t valid_bytes,
                 uint64_t owner);
  // The driver is about to take adopted memory back (0: whosever): nobody looks there any more.
  void Abandon(uint64_t owner);
  // False: there is none (a lie).
  bool Remove(uint64_t address);
  // Where devices reach it too.
  bool Contains(uint64_t address, uint64_t bytes) const;
  // Where the client may write.
  bool MayApply(uint64_t address, uint64_t bytes) const;

  // What the client wrote: the bytes that `mask` names (empty: all). False: outside (a lie).
  bool Apply(uint64_t address, std::span<const std::byte> bytes, std::span<const std::byte> mask);
  // Runs {u64 address, bytes, mask}. False: malformed or outside (a lie).
  bool ApplyRuns(std::span<const std::byte> runs);

  // Appends runs of what the device wrote since it was last asked, from the address `from` on, to
  // kMirrored's body. Where to go on from once there are `most_bytes` of runs, or so much was
  // looked through; 0: that is all.
  static constexpr uint64_t kMaxLookedBytes = 16u << 20;  // a few milliseconds
  uint64_t Collect(uint64_t from, size_t most_bytes, Builder* out);
  // Of all mirrors whose bytes cross: what a look at them costs.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Mirror {
    uint64_t bytes = 0;
    int device = -1;
    std::byte* agreed = nullptr;  // null: both sides have the same memory
    std::byte* memory = nullptr;  // null: taken back by the driver
    uint64_t valid_bytes = 0;     // the rest of the last page is the client's
    uint64_t owner = 0;           // of adopted memory
  };
  const Mirror* FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) const;
  static void CollectPage(uint64_t address, const std::byte* memory, std::byte* agreed,
                          size_t bytes, Builder* out);
  void KeepLocked(uint64_t address, const Mirror& mirror);
  CUresult Make(uint64_t address, uint64_t bytes, int device, int* descriptor, std::string* detail);
  CUresult Charge(uint64_t bytes, int device, std::string* detail);
  void Refund(uint64_t bytes, int device);
  void Drop(const Mirror& mirror);
  static void Unmap(const Mirror& mirror);
  static uint64_t CrossingBytes(const Mirror& mirror) {
    return mirror.agreed == nullptr ? 0 : mirror.bytes;
  }
  // Has the driver lock it, for the address that it has here.
  CUresult Register(const Mirror& mirror);

  const DriverApi& api_;
  MemoryBroker& broker_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Mirror> mirrors_;
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace farcall::server
