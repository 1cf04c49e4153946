// SPDX-License-Identifier: Apache-2.0
// Device memory's addresses: one reserved range, backed 2 MiB at a time while an allocation touches
// it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace farcall::cpu_device {

//   Thread  all methods from any thread
class Arena {
 public:
  // Reserves `bytes` of address space, or as much of it as the process may have.
  explicit Arena(uint64_t bytes);

  // Readable and writable memory, aligned to 512 bytes and to `align` (a power of two, at most 2
  // MiB). 0 = no room.
  uint64_t Allocate(uint64_t bytes, uint64_t align = 512);
  // Exactly what Allocate was called with. The last allocation of a 2 MiB page gives its memory
  // back: touching it then faults.
  void Free(uint64_t address, uint64_t bytes);

  bool Contains(uint64_t address) const { return address >= base_ && address < base_ + size_; }
  uint64_t begin() const { return base_; }
  uint64_t end() const { return base_ + size_; }

 private:
  bool Retain(uint64_t address, uint64_t bytes);
  void Drop(uint64_t address, uint64_t bytes);

  std::mutex mutex_;
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_;  // start -> bytes, coalesced
  std::unique_ptr<uint32_t[]> users_;  // per 2 MiB page
};

}  // namespace farcall::cpu_device
