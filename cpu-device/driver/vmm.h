// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: physical memory in a memfd, mapped into reserved addresses.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cpu-device/driver/api.h"

namespace farcall::cpu_device {

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
};

}  // namespace farcall::cpu_device
