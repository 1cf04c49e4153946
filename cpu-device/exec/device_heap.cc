// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/exec/device_heap.h"

#include <iterator>
#include <map>
#include <mutex>

#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {
namespace {

struct Heap {
  std::mutex mutex;
  std::map<uint64_t, uint64_t> free_ranges;  // address -> bytes
  std::map<uint64_t, uint64_t> used;
};

Heap& TheHeap() {
  static Heap* heap = new Heap;  // outlives static destructors: kernels may still run
  return *heap;
}

}  // namespace

void SetDeviceHeap(uint64_t address, uint64_t bytes) {
  Heap& heap = TheHeap();
  std::lock_guard lock(heap.mutex);
  heap.free_ranges.clear();
  heap.used.clear();
  uint64_t begin = (address + 15) & ~uint64_t{15};
  if (bytes > begin - address) heap.free_ranges[begin] = bytes - (begin - address);
}

uint64_t DeviceHeapAllocate(uint64_t bytes) {
  if (bytes == 0 || bytes > (uint64_t{1} << 47)) return 0;
  bytes = (bytes + 15) & ~uint64_t{15};
  Heap& heap = TheHeap();
  std::lock_guard lock(heap.mutex);
  for (auto it = heap.free_ranges.begin(); it != heap.free_ranges.end(); ++it) {
    auto [address, size] = *it;
    if (size < bytes) continue;
    heap.free_ranges.erase(it);
    if (size > bytes) heap.free_ranges[address + bytes] = size - bytes;
    heap.used[address] = bytes;
    return address;
  }
  return 0;
}

void DeviceHeapFree(uint64_t address) {
  Heap& heap = TheHeap();
  std::lock_guard lock(heap.mutex);
  auto used = heap.used.find(address);
  if (used == heap.used.end()) return;
  uint64_t bytes = used->second;
  heap.used.erase(used);
  auto next = heap.free_ranges.lower_bound(address);
  if (next != heap.free_ranges.end() && address + bytes == next->first) {
    bytes += next->second;
    next = heap.free_ranges.erase(next);
  }
  if (next != heap.free_ranges.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  heap.free_ranges[address] = bytes;
}

}  // namespace farcall::cpu_device
