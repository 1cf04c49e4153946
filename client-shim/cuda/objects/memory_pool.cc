// SPDX-License-Identifier: Apache-2.0
// Memory pools: stream-ordered allocations come from the same credit as all others. A block freed
// in a stream serves that stream's next allocation at once, since their order is the stream's.
#include "client-shim/cuda/objects/memory_pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "client-shim/core/session/credit.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/core/session/session.h"
#include "client-shim/core/session/thread_state.h"
#include "generated/client/calls.h"

namespace farcall::client {

// Thread  under g_mutex
struct MemPool {
  int device = 0;
  uint64_t handle = 0;
  bool is_default = false;
  bool destroyed = false;  // lives on until its last allocation is freed
  bool imported = false;   // another process's: nothing is allocated from it here
  PoolShare share;
  uint64_t max_bytes = 0;  // 0: the device's
  int reuse[3] = {1, 1, 1};
  uint64_t release_threshold = 0;
  uint64_t used = 0, used_high = 0, reserved_high = 0, idle_bytes = 0;
  struct Idle {
    uint64_t stream = 0;
    Allocation block;
  };
  std::vector<Idle> idle;

  uint64_t reserved() const { return used + idle_bytes; }
};

namespace {

std::mutex* g_mutex = new std::mutex;
std::vector<MemPool*>* g_pools = new std::vector<MemPool*>;
std::vector<MemPool*>* g_current = new std::vector<MemPool*>;  // by device; null: the default
std::atomic<uint64_t> g_idle_bytes{0};

// A per-thread stream is another one on each thread.
uint64_t StreamKey(uint64_t wire_stream) {
  return wire_stream != 2 ? wire_stream : (uint64_t{Self()->slot} + 1) << 48 | wire_stream;
}

MemPool* NewPoolLocked(int device, bool is_default, uint64_t max_bytes) {
  auto* pool = new MemPool;
  pool->device = device;
  pool->is_default = is_default;
  pool->max_bytes = max_bytes;
  const ServerScope scope(FindDevice(device)->session);
  pool->handle = Handles(HandleKind::kMemPool).New(pool);
  g_pools->push_back(pool);
  return pool;
}

MemPool* DefaultPoolLocked(int device) {
  for (MemPool* pool : *g_pools)
    if (pool->device == device && pool->is_default) return pool;
  return NewPoolLocked(device, true, 0);
}

MemPool* CurrentPoolLocked(int device) {
  auto index = static_cast<size_t>(device);
  if (index < g_current->size() && (*g_current)[index] != nullptr) return (*g_current)[index];
  return DefaultPoolLocked(device);
}

MemPool* FindLocked(CUmemoryPool handle) {
  return FindObject<MemPool>(HandleKind::kMemPool, reinterpret_cast<uint64_t>(handle));
}

CUresult GivePool(CUmemoryPool* out, CUdevice dev, bool current) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(*g_mutex);
  MemPool* pool = current ? CurrentPoolLocked(dev) : DefaultPoolLocked(dev);
  *out = reinterpret_cast<CUmemoryPool>(pool->handle);
  return CUDA_SUCCESS;
}

void ForgetIfGone(MemPool* pool) {
  if (!pool->destroyed || pool->reserved() != 0) return;
  g_pools->erase(std::find(g_pools->begin(), g_pools->end(), pool));
  delete pool;
}

// Takes idle blocks out until at most `keep` bytes are reserved; oldest first.
void TakeOut(MemPool* pool, uint64_t keep, std::vector<Allocation>* blocks) {
  size_t count = 0;
  while (count < pool->idle.size() && pool->reserved() > keep) {
    const Allocation& block = pool->idle[count++].block;
    pool->idle_bytes -= block.charged_bytes;
    g_idle_bytes.fetch_sub(block.charged_bytes);
    blocks->push_back(block);
  }
  pool->idle.erase(pool->idle.begin(), pool->idle.begin() + static_cast<ptrdiff_t>(count));
}

void FreeBlocks(const std::vector<Allocation>& blocks) {
  for (const Allocation& block : blocks) FreeBlock(block);
}

CUresult CheckPlace(const CUmemLocation* location, CUmemAllocationType type) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_NOT_SUPPORTED;
  return FindDevice(location->id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

uint64_t* HighMark(MemPool* pool, CUmemPool_attribute attr) {
  return attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? &pool->used_high : &pool->reserved_high;
}

}  // namespace

MemPool* CurrentPool(int device) {
  std::lock_guard lock(*g_mutex);
  return CurrentPoolLocked(device);
}

MemPool* FindPool(CUmemoryPool handle) {
  return FindLocked(handle);
}

CUmemoryPool HandleOf(const MemPool* pool) {
  return pool == nullptr ? nullptr : reinterpret_cast<CUmemoryPool>(pool->handle);
}

int DeviceOf(const MemPool* pool) {
  return pool->device;
}

bool IsImported(const MemPool* pool) {
  return pool->imported;
}

PoolShare ShareOf(const MemPool* pool) {
  std::lock_guard lock(*g_mutex);
  return pool->share;
}

void SetShare(MemPool* pool, const PoolShare& share) {
  std::lock_guard lock(*g_mutex);
  pool->share = share;
}

CUmemoryPool NewImportedPool(int device, const PoolShare& share) {
  std::lock_guard lock(*g_mutex);
  MemPool* made = NewPoolLocked(device, false, 0);
  made->imported = true;
  made->share = share;
  return HandleOf(made);
}

bool TakeIdle(MemPool* pool, uint64_t wire_stream, uint64_t bytes, Allocation* block) {
  uint64_t key = StreamKey(wire_stream);
  std::lock_guard lock(*g_mutex);
  auto best = pool->idle.end();
  for (auto at = pool->idle.begin(); at != pool->idle.end(); ++at) {
    uint64_t has = at->block.charged_bytes;
    // A block far too large stays for who needs it.
    if (at->stream != key || has < bytes || has > bytes + bytes / 4 + (64u << 10)) continue;
    if (best == pool->idle.end() || has < best->block.charged_bytes) best = at;
  }
  if (best == pool->idle.end()) return false;
  *block = best->block;
  pool->idle.erase(best);
  pool->idle_bytes -= block->charged_bytes;
  g_idle_bytes.fetch_sub(block->charged_bytes);
  return true;
}

bool CountUsed(MemPool* pool, uint64_t bytes) {
  std::lock_guard lock(*g_mutex);
  if (pool->max_bytes != 0 && (bytes > pool->max_bytes || pool->used > pool->max_bytes - bytes))
    return false;
  pool->used += bytes;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->reserved());
  return true;
}

void CountUnused(MemPool* pool, uint64_t bytes) {
  std::lock_guard lock(*g_mutex);
  pool->used -= bytes;
  ForgetIfGone(pool);
}

void KeepIdle(MemPool* pool, uint64_t wire_stream, const Allocation& block) {
  uint64_t key = StreamKey(wire_stream);
  {
    std::lock_guard lock(*g_mutex);
    if (!pool->destroyed) {
      pool->used -= block.charged_bytes;
      pool->idle.push_back({key, block});
      pool->idle_bytes += block.charged_bytes;
      g_idle_bytes.fetch_add(block.charged_bytes);
      return;
    }
  }
  FreeBlock(block);
  CountUnused(pool, block.charged_bytes);
}

bool ReleaseIdle(int server_device) {
  if (g_idle_bytes.load() == 0) return false;
  const Session* session = CurrentSession();
  std::vector<Allocation> blocks;
  {
    std::lock_guard lock(*g_mutex);
    for (MemPool* pool : *g_pools) {
      const Device* device = FindDevice(pool->device);
      if (device->session == session && device->server_index == server_device)
        TakeOut(pool, 0, &blocks);
    }
  }
  FreeBlocks(blocks);
  return !blocks.empty();
}

void ReleaseIdleOfStream(uint64_t wire_stream) {
  if (g_idle_bytes.load() == 0) return;
  uint64_t key = StreamKey(wire_stream);
  std::vector<Allocation> blocks;
  {
    std::lock_guard lock(*g_mutex);
    for (MemPool* pool : *g_pools) {
      std::erase_if(pool->idle, [&](const MemPool::Idle& idle) {
        if (idle.stream != key) return false;
        blocks.push_back(idle.block);
        pool->idle_bytes -= idle.block.charged_bytes;
        g_idle_bytes.fetch_sub(idle.block.charged_bytes);
        return true;
      });
    }
  }
  FreeBlocks(blocks);
}

void TrimPoolsAtWait() {
  if (g_idle_bytes.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  std::vector<Allocation> blocks;
  {
    std::lock_guard lock(*g_mutex);
    for (MemPool* pool : *g_pools) TakeOut(pool, pool->release_threshold, &blocks);
  }
  FreeBlocks(blocks);
}

void DropPoolMemory(Context* context) {
  std::lock_guard lock(*g_mutex);
  for (MemPool* pool : *g_pools) {
    std::erase_if(pool->idle, [&](const MemPool::Idle& idle) {
      if (idle.block.context != context) return false;
      pool->idle_bytes -= idle.block.charged_bytes;
      g_idle_bytes.fetch_sub(idle.block.charged_bytes);
      context->session->credit().GiveBack(
          {idle.block.server_device, idle.block.base, idle.block.charged_bytes});
      return true;
    });
  }
}

CUresult Call_cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return GivePool(pool_out, dev, false);
}
CUresult Call_cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return GivePool(pool, dev, true);
}

CUresult Call_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(*g_mutex);
  MemPool* found = FindLocked(pool);
  if (found == nullptr || found->device != dev || found->imported) return CUDA_ERROR_INVALID_VALUE;
  if (g_current->size() <= static_cast<size_t>(dev)) g_current->resize(dev + 1);
  (*g_current)[dev] = found;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location,
                                     CUmemAllocationType type) {
  CUresult status = CheckPlace(location, type);
  return status == CUDA_SUCCESS ? GivePool(pool_out, location->id, false) : status;
}

CUresult Call_cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                              CUmemAllocationType type) {
  CUresult status = CheckPlace(location, type);
  return status == CUDA_SUCCESS ? GivePool(pool, location->id, true) : status;
}

CUresult Call_cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                              CUmemoryPool pool) {
  CUresult status = CheckPlace(location, type);
  return status == CUDA_SUCCESS ? Call_cuDeviceSetMemPool(location->id, pool) : status;
}

CUresult Call_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckPlace(&poolProps->location, poolProps->allocType);
  if (status != CUDA_SUCCESS) return status;
  // Of what CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES says.
  int supported = FindDevice(poolProps->location.id)
                      ->Attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
  if ((poolProps->handleTypes & ~supported) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard lock(*g_mutex);
  MemPool* made = NewPoolLocked(poolProps->location.id, false, poolProps->maxSize);
  made->share.handle_types = poolProps->handleTypes;
  *pool = HandleOf(made);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolDestroy(CUmemoryPool pool) {
  std::vector<Allocation> blocks;
  {
    std::lock_guard lock(*g_mutex);
    MemPool* found = FindLocked(pool);
    if (found == nullptr || found->is_default) return CUDA_ERROR_INVALID_VALUE;
    std::replace(g_current->begin(), g_current->end(), found, static_cast<MemPool*>(nullptr));
    TakeOut(found, 0, &blocks);
    FreeHandle(HandleKind::kMemPool, found->handle);
    found->destroyed = true;
    ForgetIfGone(found);
  }
  FreeBlocks(blocks);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  std::lock_guard lock(*g_mutex);
  MemPool* found = FindLocked(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(value) =
          found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *static_cast<cuuint64_t*>(value) = found->release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = found->reserved();
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *static_cast<cuuint64_t*>(value) = found->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *static_cast<cuuint64_t*>(value) = *HighMark(found, attr);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Call_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  std::lock_guard lock(*g_mutex);
  MemPool* found = FindLocked(pool);
  if (found == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
          *static_cast<int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      found->release_threshold = *static_cast<cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      *HighMark(found, attr) =
          attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? found->used : found->reserved();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Call_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  std::vector<Allocation> blocks;
  {
    std::lock_guard lock(*g_mutex);
    MemPool* found = FindLocked(pool);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    TakeOut(found, minBytesToKeep, &blocks);
  }
  FreeBlocks(blocks);
  return CUDA_SUCCESS;
}

// Its own device's access cannot be taken away; credit is mapped for no other.
CUresult Call_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  std::lock_guard lock(*g_mutex);
  MemPool* found = FindLocked(pool);
  if (found == nullptr || (map == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        FindDevice(map[i].location.id) == nullptr)
      return CUDA_ERROR_INVALID_DEVICE;
    bool own = map[i].location.id == found->device;
    if (own && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_DEVICE;
    if (!own && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
      return NotSupported(CallId::cuMemPoolSetAccess);
  }
  return CUDA_SUCCESS;
}

CUresult Call_cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                                 CUmemLocation* location) {
  std::lock_guard lock(*g_mutex);
  MemPool* found = FindLocked(memPool);
  if (flags == nullptr || found == nullptr || location == nullptr ||
      location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = location->id == found->device ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
