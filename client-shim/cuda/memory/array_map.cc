// SPDX-License-Identifier: Apache-2.0
// Memory for arrays that were made without: pieces of cuMemCreate's memory, mapped in stream order.
// The memory stays, and stays charged, until the array goes.
#include <algorithm>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/objects/array.h"
#include "client-shim/cuda/objects/physical_memory.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr unsigned kMaxMaps = 4096;  // a record's

Array* Target(const CUarrayMapInfo& info) {
  switch (info.resourceType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return FindArray(info.resource.array);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return FindMipmappedArray(info.resource.mipmap);
    default:
      return nullptr;
  }
}

// Under the ranges' mutex. *memory stays null for an unmapping.
CUresult Check(const CUarrayMapInfo& info, Array** array, PhysicalMemory** memory) {
  int device = CurrentContext()->device;
  *array = Target(info);
  if (*array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((*array)->parent != 0 || info.flags != 0 || info.reserved[0] != 0 || info.reserved[1] != 0 ||
      info.deviceBitMask != 1u << device ||
      ((*array)->shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0 ||
      info.subresourceType < 0 || info.subresourceType > CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
    return CUDA_ERROR_INVALID_VALUE;
  if (info.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
    return info.memHandle.memHandle == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (info.memOperationType != CU_MEM_OPERATION_TYPE_MAP ||
      info.memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
    return CUDA_ERROR_INVALID_VALUE;
  *memory = FindPhysicalMemory(info.memHandle.memHandle);
  if (*memory == nullptr || (*memory)->device != device || info.offset >= (*memory)->bytes)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// server/calls/memory/array_map.cc reads it.
void Put(Builder& body, const CUarrayMapInfo& info, const Array& array) {
  body.Put<uint8_t>(info.resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY ? 1 : 0);
  body.Put<uint64_t>(array.handle);
  body.Put<uint8_t>(static_cast<uint8_t>(info.subresourceType));
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    body.Put<uint32_t>(info.subresource.miptail.layer);
    body.Put<uint64_t>(info.subresource.miptail.offset);
    body.Put<uint64_t>(info.subresource.miptail.size);
  } else {
    const auto& level = info.subresource.sparseLevel;
    for (unsigned value : {level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ,
                           level.extentWidth, level.extentHeight, level.extentDepth})
      body.Put<uint32_t>(value);
  }
  bool maps = info.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
  body.Put<uint64_t>(maps ? info.memHandle.memHandle : 0);
  body.Put<uint64_t>(maps ? info.offset : 0);
}

}  // namespace

CUresult Call_cuMemMapArrayAsync(CUarrayMapInfo* mapInfoList, unsigned int count,
                                 CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (mapInfoList == nullptr || count == 0 || count > kMaxMaps) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(UserRanges().mutex());
  Builder body;
  body.Put<uint64_t>(stream);
  body.Put<uint64_t>(count);
  std::vector<std::pair<Array*, PhysicalMemory*>> mapped;
  for (unsigned i = 0; i < count; ++i) {
    Array* array = nullptr;
    PhysicalMemory* memory = nullptr;
    status = Check(mapInfoList[i], &array, &memory);
    if (status != CUDA_SUCCESS) return status;
    Put(body, mapInfoList[i], *array);
    if (memory != nullptr) mapped.emplace_back(array, memory);
  }
  for (auto [array, memory] : mapped) {
    std::vector<PhysicalMemory*>& backing = array->backing;
    if (std::find(backing.begin(), backing.end(), memory) != backing.end()) continue;
    backing.push_back(memory);
    ++memory->mappings;
  }
  return Post(CallId::cuMemMapArrayAsync, body.bytes());
}

}  // namespace farcall::client
