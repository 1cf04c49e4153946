// SPDX-License-Identifier: Apache-2.0
#include "server/device/busy_clock.h"

#include <cstring>

#include "cuda-abi/device_time.h"

namespace farcall::server {

std::function<quota::Ns(int device)> BusyClock(const DriverApi& api) {
  CUuuid id;
  static_assert(sizeof(id.bytes) == sizeof(cuda_abi::kDeviceTimeTable));
  std::memcpy(id.bytes, cuda_abi::kDeviceTimeTable, sizeof(id.bytes));
  const void* found = nullptr;
  if (api.cuGetExportTable == nullptr || api.cuGetExportTable(&found, &id) != CUDA_SUCCESS ||
      found == nullptr)
    return {};
  const auto* table = static_cast<const cuda_abi::DeviceTimeTable*>(found);
  if (table->bytes < sizeof(*table) || table->used_ns == nullptr) return {};
  return [used = table->used_ns](int device) { return static_cast<quota::Ns>(used(device)); };
}

}  // namespace farcall::server
