// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory pools: attributes and counts. The memory itself comes from the device's
// arena.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

class Device;

class MemPool {
 public:
  explicit MemPool(Device& device, uint64_t max_bytes = 0,
                   CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE,
                   int imported = -1)
      : device_(device), max_bytes_(max_bytes), handle_types_(handle_types), imported_(imported) {}
  MemPool(const MemPool&) = delete;
  ~MemPool();

  Device& device() const { return device_; }
  CUmemoryPool handle() { return reinterpret_cast<CUmemoryPool>(this); }

  // How another process may open it.
  CUmemAllocationHandleType handle_types() const { return handle_types_; }

  // The file of the process whose pool this is; -1: this one's.
  int imported() const { return imported_; }

  // false: the pool's own limit is reached.
  bool Use(uint64_t bytes);
  void Unuse(uint64_t bytes);
  CUresult SetAttribute(CUmemPool_attribute attribute, const void* value);
  CUresult GetAttribute(CUmemPool_attribute attribute, void* value) const;

 private:
  Device& device_;
  const uint64_t max_bytes_;  // 0 = the device's
  const CUmemAllocationHandleType handle_types_;
  const int imported_;
  mutable std::mutex mutex_;
  int reuse_[4] = {0, 1, 1, 1};  // by attribute number
  uint64_t release_threshold_ = 0;
  uint64_t used_ = 0;
  uint64_t used_high_ = 0;
};

}  // namespace farcall::cpu_device
