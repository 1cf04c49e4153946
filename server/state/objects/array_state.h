// SPDX-License-Identifier: Apache-2.0
// What the worker keeps of an array or mipmap.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

namespace farcall::server {

struct PhysicalMemory;

// Memory that an array is mapped to stays as long as this does.
class MemoryHold {
 public:
  explicit MemoryHold(std::shared_ptr<std::atomic<uint32_t>> count) : count_(std::move(count)) {
    ++*count_;
  }
  MemoryHold(const MemoryHold&) = delete;
  ~MemoryHold() { --*count_; }

 private:
  std::shared_ptr<std::atomic<uint32_t>> count_;
};
using MemoryHolds = std::map<PhysicalMemory*, std::unique_ptr<MemoryHold>>;

struct ArrayState {
  uint64_t parent = 0;  // the wire handle it is a level or plane of; 0: its own
  MemoryHolds holds;
};

}  // namespace farcall::server
