// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/objects/graph_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct Amount {
  uint64_t now = 0, high = 0;
  void Add(uint64_t bytes) { high = std::max(high, now += bytes); }
};

struct Table {
  std::mutex mutex;
  std::map<CUdeviceptr, std::weak_ptr<GraphMemory>> all;
  std::map<CUdeviceptr, std::shared_ptr<GraphMemory>> live;
  std::map<int, Amount> used, reserved;
};
Table* g_table = new Table;
// Nothing to look for in programs whose graphs allocate nothing.
std::atomic<uint64_t> g_count{0};

CUresult CheckDevice(CUdevice device, const void* value) {
  if (FindDevice(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

CUresult GraphMemory::Make(uint64_t bytes, std::shared_ptr<GraphMemory>* made) {
  CUdeviceptr address = 0;
  CUresult status = Call_cuMemAlloc_v2(&address, bytes);
  if (status != CUDA_SUCCESS) return status;
  *made = std::make_shared<GraphMemory>(CurrentContext()->device, address, bytes);
  std::lock_guard lock(g_table->mutex);
  g_table->all[address] = *made;
  g_table->reserved[(*made)->device].Add(bytes);
  g_count.fetch_add(1);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphMemory> GraphMemory::Find(CUdeviceptr address) {
  if (g_count.load(std::memory_order_relaxed) == 0) [[likely]]
    return nullptr;
  std::lock_guard lock(g_table->mutex);
  auto found = g_table->all.find(address);
  return found == g_table->all.end() ? nullptr : found->second.lock();
}

GraphMemory::~GraphMemory() {
  {
    std::lock_guard lock(g_table->mutex);
    g_table->all.erase(address);
    g_table->reserved[device].now -= bytes;
    g_count.fetch_sub(1);
  }
  FreeQuietly(address);
}

void FreeQuietly(CUdeviceptr address) {
  if (CurrentSession() == nullptr) return;
  CUresult status = Call_cuMemFree_v2(address);
  Context* context = CurrentContext();
  // An older call's: it is for the application.
  if (status != CUDA_SUCCESS && context != nullptr && CurrentSession()->ended() == CUDA_SUCCESS)
    RecordLateError(context, status);
}

void GraphMemory::Use(const std::shared_ptr<GraphMemory>& self) {
  std::lock_guard lock(g_table->mutex);
  if (live_.exchange(true)) return;
  g_table->live[address] = self;
  g_table->used[device].Add(bytes);
}

void GraphMemory::Unuse() {
  std::shared_ptr<GraphMemory> last;  // goes after the lock
  std::lock_guard lock(g_table->mutex);
  if (!live_.exchange(false)) return;
  auto found = g_table->live.find(address);
  last = std::move(found->second);
  g_table->live.erase(found);
  g_table->used[device].now -= bytes;
}

bool FreeGraphMemory(CUdeviceptr address, CUresult* result) {
  std::shared_ptr<GraphMemory> memory = GraphMemory::Find(address);
  if (memory == nullptr) return false;
  *result = memory->live() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  memory->Unuse();
  return true;
}

CUresult Call_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                           void* value) {
  CUresult status = CheckDevice(device, value);
  if (status != CUDA_SUCCESS) return status;
  std::lock_guard lock(g_table->mutex);
  auto* out = static_cast<cuuint64_t*>(value);
  switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *out = g_table->used[device].now;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *out = g_table->used[device].high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *out = g_table->reserved[device].now;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *out = g_table->reserved[device].high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// High watermarks only, and only back to zero: to what is in use.
CUresult Call_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr,
                                           void* value) {
  CUresult status = CheckDevice(device, value);
  if (status != CUDA_SUCCESS) return status;
  if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(g_table->mutex);
  if (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  Amount& amount =
      (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ? g_table->used : g_table->reserved)[device];
  amount.high = amount.now;
  return CUDA_SUCCESS;
}

// Memory goes with the last that holds it: nothing is kept for later.
CUresult Call_cuDeviceGraphMemTrim(CUdevice device) {
  return CheckDevice(device, &device);
}

}  // namespace farcall::client
