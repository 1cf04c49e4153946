// SPDX-License-Identifier: Apache-2.0
// What a pointer is, from the client's map.
#include <cstring>

#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/session_face.h"
#include "client-shim/cuda/objects/memory_pool.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

template <typename T>
CUresult Store(void* data, T value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

// Each attribute is stored in its own type: a wrong size would write over a neighbour.
CUresult StoreAttribute(void* data, CUpointer_attribute attribute, const Allocation* found) {
  bool managed = found != nullptr && found->kind == MemoryKind::kManaged;
  bool device = managed || (found != nullptr && found->kind == MemoryKind::kDevice);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Store(data, AsCuda(found == nullptr ? nullptr : found->context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Store<unsigned>(data, found == nullptr ? 0
                                   : device         ? CU_MEMORYTYPE_DEVICE
                                                    : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return Store<unsigned long long>(data, found == nullptr ? 0 : found->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:  // cudart reads four bytes that it has not cleared
      return Store<unsigned>(data, managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:  // what lies in credit
      return Store<bool>(data, device && found->charged_bytes != 0 && found->pool == nullptr);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Store<bool>(data, false);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return Store<bool>(
          data, device && !found->mirrored &&
                    FindDevice(found->device)
                            ->Attribute(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK) != 0);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Store<unsigned>(data, found != nullptr && found->sync_memops ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Store<bool>(data, device);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Store<int>(data, found == nullptr            ? -2
                              : found->mapped_handle != 0 ? found->device
                              : found->context == nullptr ? -2
                                                          : found->context->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Store<CUdeviceptr>(data, found == nullptr ? 0 : found->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Store<size_t>(data, found == nullptr ? 0 : found->bytes);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Store<unsigned long long>(data, found == nullptr ? 0 : found->handle_types);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Store<CUmemoryPool>(data, found == nullptr ? nullptr : HandleOf(found->pool));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Store<int>(data, found == nullptr || !found->accessible
                                  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                                  : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Where host and device have the byte at `ptr`; 0: nowhere.
struct Sides {
  uint64_t host = 0, device = 0;
};
Sides SidesOf(const Allocation& found, CUdeviceptr ptr) {
  uint64_t offset = ptr - found.base;
  if (found.kind == MemoryKind::kDevice) return {0, ptr};
  if (found.kind == MemoryKind::kManaged) return {ptr, ptr};
  if (found.kind == MemoryKind::kHostOwned) return {ptr, HostAddresses().Holds(ptr) ? ptr : 0};
  if (found.mirrored) return {found.alias + offset, ptr};  // the device's name of registered memory
  return {ptr, found.alias == 0 ? 0 : found.alias + offset};
}

CUresult StoreFor(void* data, CUpointer_attribute attribute, CUdeviceptr ptr,
                  const Allocation* found) {
  Sides sides = found == nullptr ? Sides{} : SidesOf(*found, ptr);
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER)
    return Store<CUdeviceptr>(data, sides.device);
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
    return Store<void*>(data, reinterpret_cast<void*>(sides.host));
  return StoreAttribute(data, attribute, found);
}

}  // namespace

CUresult Call_cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  if (!Memory().Find(ptr, &found)) return CUDA_ERROR_INVALID_VALUE;
  Sides sides = SidesOf(found, ptr);
  if ((attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && sides.host == 0) ||
      (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER && sides.device == 0))
    return CUDA_ERROR_INVALID_VALUE;
  return StoreFor(data, attribute, ptr, &found);
}

CUresult Call_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                     void** data, CUdeviceptr ptr) {
  if (numAttributes == 0 || attributes == nullptr || data == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  const Allocation* known = Memory().Find(ptr, &found) ? &found : nullptr;
  for (unsigned i = 0; i < numAttributes; ++i) {
    CUresult status = StoreFor(data[i], attributes[i], ptr, known);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

CUresult Call_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                    CUdeviceptr ptr) {
  Allocation found;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
      !Memory().Find(ptr, &found))
    return CUDA_ERROR_INVALID_VALUE;
  unsigned on = 0;
  std::memcpy(&on, value, sizeof(on));
  Memory().SetSyncMemops(found.base, on != 0);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
