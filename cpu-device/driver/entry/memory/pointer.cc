// SPDX-License-Identifier: Apache-2.0
// What a pointer is.
#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/work/vmm.h"

namespace farcall::cpu_device {
namespace {

// A known address: the range, and the mapping when it lies in a reservation.
struct Pointee {
  Range range;
  uint64_t start = 0;
  uint64_t bytes = 0;
  uint64_t id = 0;
  int device = 0;
  unsigned handle_types = 0;
};

bool Look(uint64_t address, Pointee* pointee) {
  Range& range = pointee->range;
  if (!TheDriver().ranges.Find(address, &range)) return false;
  *pointee = {range, range.start, range.bytes, range.id, range.device, 0};
  if (range.kind != RangeKind::kReservation) return true;
  auto it = range.mappings.upper_bound(address);
  if (it == range.mappings.begin()) return false;
  const Mapping& mapping = (--it)->second;
  if (address >= mapping.start + mapping.bytes) return false;
  pointee->start = mapping.start;
  pointee->bytes = mapping.bytes;
  pointee->id = mapping.id;
  pointee->device = mapping.memory->prop.location.id;
  pointee->handle_types = mapping.memory->prop.requestedHandleTypes;
  return true;
}

CUcontext ContextOf(const Pointee& pointee) {
  if (pointee.range.context != nullptr && pointee.range.kind != RangeKind::kPool)
    return pointee.range.context->handle();
  return nullptr;
}

CUresult Get(void* data, CUpointer_attribute attribute, uint64_t address, const Pointee& pointee) {
  const bool host = pointee.range.on_host();
  const bool managed = pointee.range.managed();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(data) = ContextOf(pointee);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = address;
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = reinterpret_cast<void*>(address);
      break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(data) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = pointee.id;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = managed;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = pointee.device;
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(data) = pointee.range.kind == RangeKind::kDevice;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = pointee.range.start;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(data) = pointee.range.bytes;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(data) = true;
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned*>(data) = pointee.handle_types;
      break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<bool*>(data) = false;
      break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<unsigned*>(data) =
          TheDriver().ranges.Accessible(address, 1, pointee.device, true)
              ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
              : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(data) =
          pointee.range.pool == nullptr ? nullptr : pointee.range.pool->handle();
      break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<size_t*>(data) = pointee.bytes;
      break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(data) = pointee.start;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *static_cast<unsigned long long*>(data) = pointee.id;
      break;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *static_cast<bool*>(data) = !host && TheDriver().profile.decompresses();
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// What cuPointerGetAttributes stores for a pointer it does not know: zeros of the attribute's size.
void Clear(void* data, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<unsigned*>(data) = 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = -2;
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *static_cast<bool*>(data) = false;
      break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      break;
    default:
      *static_cast<uint64_t*>(data) = 0;
      break;
  }
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (const CUresult result = CheckInitialized()) return result;
  Pointee pointee;
  if (data == nullptr || !Look(address, &pointee)) return CUDA_ERROR_INVALID_VALUE;
  return Get(data, attribute, address, pointee);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  if (const CUresult result = CheckInitialized()) return result;
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Pointee pointee;
  const bool known = Look(address, &pointee);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
        attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
      return CUDA_ERROR_INVALID_VALUE;
    if (!known || Get(data[i], attributes[i], address, pointee) != CUDA_SUCCESS)
      Clear(data[i], attributes[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  if (const CUresult result = CheckInitialized()) return result;
  Pointee pointee;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !Look(address, &pointee))
    return CUDA_ERROR_INVALID_VALUE;
  // Synchronous copies already wait for the whole operation.
  return CUDA_SUCCESS;
}

}  // extern "C"
