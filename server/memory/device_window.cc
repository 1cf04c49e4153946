// SPDX-License-Identifier: Apache-2.0
// The session's window of device addresses: which the client and the driver agree on, and which of
// them are free.
#include <iterator>

#include "server/memory/device_memory.h"

namespace farcall::server {

int DeviceMemory::ReserveWindow(const std::vector<Window>& offers) {
  if (api_.cuMemAddressReserve == nullptr || api_.cuMemCreate == nullptr) return -1;
  for (size_t i = 0; i < offers.size(); ++i) {
    const Window& offer = offers[i];
    if (offer.bytes == 0 || offer.base % kChunkGranularityBytes != 0 ||
        offer.bytes % kChunkGranularityBytes != 0 || offer.base + offer.bytes < offer.base)
      continue;
    CUdeviceptr got = 0;
    if (api_.cuMemAddressReserve(&got, offer.bytes, 0, offer.base, 0) != CUDA_SUCCESS) continue;
    if (got != offer.base) {
      api_.cuMemAddressFree(got, offer.bytes);
      continue;
    }
    window_ = offer;
    free_ranges_[offer.base] = CreditHalf(offer).bytes;
    return static_cast<int>(i);
  }
  return -1;
}

uint64_t DeviceMemory::TakeRange(uint64_t bytes) {
  for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
    if (range->second < bytes) continue;
    auto [base, length] = *range;
    free_ranges_.erase(range);
    if (length > bytes) free_ranges_[base + bytes] = length - bytes;
    return base;
  }
  return 0;
}

void DeviceMemory::PutRange(uint64_t base, uint64_t bytes) {
  auto next = free_ranges_.lower_bound(base);
  if (next != free_ranges_.end() && base + bytes == next->first) {
    bytes += next->second;
    next = free_ranges_.erase(next);
  }
  if (next != free_ranges_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == base) {
      before->second += bytes;
      return;
    }
  }
  free_ranges_[base] = bytes;
}

}  // namespace farcall::server
