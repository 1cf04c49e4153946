// SPDX-License-Identifier: Apache-2.0
// Host memory of the application's that kernels may reach: a copy at the same address here, and
// what both sides last agreed on. Partner: client-shim/cuda/mirror.cc.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "proto/codec.h"
#include "proto/wire.h"
#include "server/driver_api.h"
#include "server/memory_broker.h"

namespace farcall::server {

//   Thread  any
class Mirrors {
 public:
  Mirrors(const DriverApi& api, MemoryBroker& broker) : api_(api), broker_(broker) {}
  ~Mirrors();
  Mirrors(const Mirrors&) = delete;

  // Maps memory at the very address and has the driver lock it. `device` >= 0: charged there, as
  // managed memory is; else it counts against what a session may mirror.
  //   Errors  INVALID_VALUE (outside the host windows), OUT_OF_MEMORY, NOT_SUPPORTED (the address
  //           is taken here, or the device would use another)
  CUresult Create(uint64_t address, uint64_t bytes, int device, std::string* detail);
  // False: there is none (a lie).
  bool Remove(uint64_t address);
  bool Contains(uint64_t address, uint64_t bytes) const;

  // What the client wrote: bytes that differ from what was agreed. False: outside (a lie).
  bool Apply(uint64_t address, std::span<const std::byte> bytes);
  // Runs {u64 address, u64 bytes, bytes}. False: malformed or outside (a lie).
  bool ApplyRuns(std::span<const std::byte> runs);
  // What the device wrote since it was last asked: u8 more, then runs {u64 address, u64 bytes, u64
  // inline bytes, bytes}. A run without its bytes is large: the client copies it.
  void Collect(Builder* out);

 private:
  struct Mirror {
    uint64_t bytes = 0;
    int device = -1;
    std::byte* agreed = nullptr;
  };
  struct Answer;
  const Mirror* FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) const;
  void ApplyLocked(uint64_t base, const Mirror& mirror, uint64_t address,
                   std::span<const std::byte> bytes);
  void CollectFrom(uint64_t base, const Mirror& mirror, Answer* answer);
  void Drop(uint64_t base, const Mirror& mirror);

  const DriverApi& api_;
  MemoryBroker& broker_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Mirror> mirrors_;
  uint64_t uncharged_bytes_ = 0;
};

}  // namespace farcall::server
