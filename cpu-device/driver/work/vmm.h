// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: physical memory in a memfd, mapped into reserved addresses.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "sync/cond_var.h"

namespace farcall::cpu_device {

struct PhysicalMemory;

// Memory of several devices under one range of offsets (entry/memory/multicast.cc).
struct Multicast {
  struct Binding {
    int device = 0;
    uint64_t offset = 0, bytes = 0;
    std::shared_ptr<PhysicalMemory> memory;
    uint64_t memory_offset = 0;
  };
  // Until every device of the team was added: CUDA lets who binds or maps before that wait.
  void AwaitTeam();

  unsigned team_size = 0;
  std::mutex mutex;
  CondVar joined;
  std::vector<int> team;  // ordinals
  std::vector<Binding> bindings;
};

// Lives while a handle or a mapping names it; then its bytes go back to the device.
struct PhysicalMemory {
  PhysicalMemory() = default;
  PhysicalMemory(const PhysicalMemory&) = delete;
  ~PhysicalMemory();

  CUmemAllocationProp prop{};
  uint64_t bytes = 0;
  int fd = -1;
  bool charged = false;         // an imported one is its exporter's
  std::atomic<int> handles{1};  // cuMemCreate, import and retain add one, cuMemRelease takes one
  std::unique_ptr<Multicast> multicast;  // instead of bytes of its own
};

std::shared_ptr<PhysicalMemory> FindMemory(CUmemGenericAllocationHandle handle);
CUmemGenericAllocationHandle KeepMemory(std::shared_ptr<PhysicalMemory> memory);

}  // namespace farcall::cpu_device
