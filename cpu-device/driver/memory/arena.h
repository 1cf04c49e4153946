// SPDX-License-Identifier: Apache-2.0
// Device memory's addresses: one reserved range, backed 2 MiB at a time while an allocation touches
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace farcall::cpu_device {

// What is shared with other processes is shared in whole pages of this size.
inline constexpr uint64_t kSharedPage = 4096;

//   Thread  all methods from any thread
class Arena {
 public:
  static constexpr uint64_t kPage = 2 << 20;

  // Reserves `bytes` of address space, or as much of it as the process may have.
  explicit Arena(uint64_t bytes);

  // Readable and writable memory, aligned to 512 bytes and to `align` (a power of two, at most 2
  // MiB). 0 = no room.
  uint64_t Allocate(uint64_t bytes, uint64_t align = 512);
  // Exactly what Allocate was called with. The last allocation of a 2 MiB page gives its memory
  // back: touching it then faults.
  void Free(uint64_t address, uint64_t bytes);

  // Moves the small pages that [address, address + bytes) touches, bytes and all, into a file that
  // other processes can map; an address lies there at its distance from begin(). Nothing may touch
  // them meanwhile. They stay shared until the last allocation of their 2 MiB page is freed.
  bool Share(uint64_t address, uint64_t bytes);
  bool IsShared(uint64_t address, uint64_t bytes);
  // That file; -1 before the first Share.
  int file() const { return file_.load(std::memory_order_acquire); }
  // Another descriptor of it, for the caller to close or give away; -1: there is no such file.
  int DuplicateFile();
  // True if it is the file of some arena, of this process or another.
  static bool IsFile(int descriptor);

  bool Contains(uint64_t address) const { return address >= base_ && address < base_ + size_; }
  uint64_t begin() const { return base_; }
  uint64_t end() const { return base_ + size_; }

 private:
  bool Retain(uint64_t address, uint64_t bytes);
  void Drop(uint64_t address, uint64_t bytes);
  bool MakeFile();
  bool MoveToFile(uint64_t first, uint64_t end);
  void LeaveFile(uint64_t address, uint64_t bytes);

  std::mutex mutex_;
  uint64_t base_ = 0;
  uint64_t size_ = 0;
  std::map<uint64_t, uint64_t> free_;  // start -> bytes, coalesced
  std::unique_ptr<uint32_t[]> users_;  // per 2 MiB page
  std::atomic<int> file_{-1};
  std::vector<bool> shared_;  // per small page; empty before the first Share
};

}  // namespace farcall::cpu_device
