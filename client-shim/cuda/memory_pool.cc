// SPDX-License-Identifier: Apache-2.0
// The default memory pool of a device: stream-ordered allocations come from the same credit as all
// others.
#include <mutex>
#include <vector>

#include "client-shim/core/devices.h"
#include "client-shim/core/handles.h"
#include "client-shim/core/session_face.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

struct Pool {
  int device = 0;
  uint64_t handle = 0;
  int reuse[3] = {1, 1, 1};
  uint64_t release_threshold = 0;
};

std::mutex* g_mutex = new std::mutex;
std::vector<Pool*>* g_pools = new std::vector<Pool*>;

Pool* DefaultPool(int device) {
  std::lock_guard lock(*g_mutex);
  for (Pool* pool : *g_pools) {
    if (pool->device == device) return pool;
  }
  auto* pool = new Pool;
  pool->device = device;
  pool->handle = Handles(HandleKind::kMemPool).New(pool);
  g_pools->push_back(pool);
  return pool;
}

Pool* FindPool(CUmemoryPool handle) {
  return FindObject<Pool>(HandleKind::kMemPool, reinterpret_cast<uint64_t>(handle));
}

CUresult GivePool(CUmemoryPool* out, CUdevice dev) {
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUmemoryPool>(DefaultPool(dev)->handle);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return GivePool(pool_out, dev);
}
CUresult Call_cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return GivePool(pool, dev);
}

CUresult Call_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  Pool* found = FindPool(pool);
  if (FindDevice(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return found != nullptr && found->device == dev ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  Pool* found = FindPool(pool);
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
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return NotSupported(CallId::cuMemPoolGetAttribute);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Call_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  Pool* found = FindPool(pool);
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
      return NotSupported(CallId::cuMemPoolSetAttribute);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Call_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return FindPool(pool) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace farcall::client
