// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/graph/graph_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/memory.h"

namespace farcall::cpu_device {
namespace {

struct Amount {
  uint64_t now = 0, high = 0;
  void Add(uint64_t bytes) { high = std::max(high, now += bytes); }
};

struct Table {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<GraphMemory>> all;
  std::map<uint64_t, std::shared_ptr<GraphMemory>> live;
  std::map<int, Amount> used, reserved;
};

Table& TheTable() {
  static auto* table = new Table;
  return *table;
}

}  // namespace

CUresult GraphMemory::Make(Context& context, uint64_t bytes, std::shared_ptr<GraphMemory>* made) {
  uint64_t address = 0;
  const CUresult result = AllocateDevice(context, bytes, RangeKind::kDevice, 0, nullptr, &address);
  if (result != CUDA_SUCCESS) return result;
  *made = std::make_shared<GraphMemory>(context.device().ordinal, address, bytes);
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  table.all[address] = *made;
  table.reserved[(*made)->device].Add(bytes);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphMemory> GraphMemory::Find(uint64_t address) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  const auto found = table.all.find(address);
  return found == table.all.end() ? nullptr : found->second.lock();
}

GraphMemory::~GraphMemory() {
  {
    Table& table = TheTable();
    std::lock_guard lock(table.mutex);
    table.all.erase(address);
    table.reserved[device].now -= bytes;
  }
  FreeDevice(address, {RangeKind::kDevice});
}

void GraphMemory::Use(const std::shared_ptr<GraphMemory>& self) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  if (live_.exchange(true)) return;
  table.live[address] = self;
  table.used[device].Add(bytes);
}

void GraphMemory::Unuse() {
  std::shared_ptr<GraphMemory> last;  // goes after the lock
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  if (!live_.exchange(false)) return;
  const auto found = table.live.find(address);
  last = std::move(found->second);
  table.live.erase(found);
  table.used[device].now -= bytes;
}

bool FreeGraphMemory(uint64_t address, CUresult* result) {
  const std::shared_ptr<GraphMemory> memory = GraphMemory::Find(address);
  if (memory == nullptr) return false;
  *result = memory->live() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  memory->Unuse();
  return true;
}

CUresult GetGraphMemoryAttribute(int device, CUgraphMem_attribute attribute, cuuint64_t* value) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = table.used[device].now;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = table.used[device].high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = table.reserved[device].now;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = table.reserved[device].high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult ResetGraphMemoryAttribute(int device, CUgraphMem_attribute attribute) {
  Table& table = TheTable();
  std::lock_guard lock(table.mutex);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      table.used[device].high = table.used[device].now;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      table.reserved[device].high = table.reserved[device].now;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace farcall::cpu_device
