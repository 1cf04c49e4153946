// SPDX-License-Identifier: Apache-2.0
// Memory for arrays that were made without: a whole array or mipmap is laid over a piece of
// cuMemCreate's memory, at an address of its own. This device has no sparse arrays.
#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/memory/array.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/stream.h"
#include "cpu-device/driver/work/vmm.h"

namespace farcall::cpu_device {

void UnmapArrayMemory(uint64_t* base, uint64_t* bytes) {
  if (*base == 0) return;
  cuMemUnmap(*base, *bytes);
  cuMemAddressFree(*base, *bytes);
  *base = *bytes = 0;
}

namespace {

// `bytes` of `memory` from `offset` on, mapped whole granules around; 0 with *result set.
uint64_t MapPiece(CUmemGenericAllocationHandle memory, uint64_t offset, uint64_t bytes, int ordinal,
                  uint64_t* base, uint64_t* mapped, CUresult* result) {
  CUmemAllocationProp prop{};
  size_t granule = 0;
  *result = cuMemGetAllocationPropertiesFromHandle(&prop, memory);
  if (*result != CUDA_SUCCESS) return 0;
  cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  const uint64_t first = offset / granule * granule;
  *mapped = (offset + bytes - first + granule - 1) / granule * granule;
  CUdeviceptr address = 0;
  *result = cuMemAddressReserve(&address, *mapped, 0, 0, 0);
  if (*result != CUDA_SUCCESS) return 0;
  *result = cuMemMap(address, *mapped, first, memory, 0);
  if (*result != CUDA_SUCCESS) {
    cuMemAddressFree(address, *mapped);
    return 0;
  }
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  *result = cuMemSetAccess(address, *mapped, &access, 1);
  *base = address;
  return address + (offset - first);
}

template <typename Whole, typename Place>
CUresult Remap(Whole& whole, uint64_t bytes, int ordinal, const CUarrayMapInfo& info, Place place) {
  UnmapArrayMemory(&whole.mapped_base, &whole.mapped_bytes);
  place(0);
  if (info.memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  const uint64_t address = MapPiece(info.memHandle.memHandle, info.offset, bytes, ordinal,
                                    &whole.mapped_base, &whole.mapped_bytes, &result);
  place(address);
  return result;
}

CUresult CheckInfo(const CUarrayMapInfo& info, int ordinal) {
  const bool maps = info.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
  if ((!maps && info.memOperationType != CU_MEM_OPERATION_TYPE_UNMAP) || info.flags != 0 ||
      info.deviceBitMask != 1u << ordinal || info.offset % kArrayAlignment != 0 ||
      (maps && info.memHandleType != CU_MEM_HANDLE_TYPE_GENERIC))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<PhysicalMemory> memory =
      maps ? FindMemory(info.memHandle.memHandle) : nullptr;
  return memory != nullptr && memory->multicast != nullptr ? CUDA_ERROR_INVALID_VALUE
                                                           : CUDA_SUCCESS;
}

CUresult MapArray(const CUarrayMapInfo& info, int ordinal) {
  const std::shared_ptr<Array> array = Arrays().Find(info.resource.array);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (array->is_level || (array->shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return Remap(*array, array->bytes(), ordinal, info,
               [&](uint64_t address) { array->address = address; });
}

CUresult MapMipmap(const CUarrayMapInfo& info, int ordinal) {
  const std::shared_ptr<Mipmap> mipmap = Mipmaps().Find(info.resource.mipmap);
  if (mipmap == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((mipmap->levels[0]->shape.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  return Remap(*mipmap, mipmap->bytes, ordinal, info, [&](uint64_t address) {
    for (const auto& level : mipmap->levels) {
      level->address = address;
      if (address != 0) address += level->bytes();
    }
  });
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemMapArrayAsync(CUarrayMapInfo* infos, unsigned int count, CUstream handle) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const std::shared_ptr<Stream> stream = context->FindStream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (infos == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const int ordinal = context->device().ordinal;
  for (unsigned i = 0; i < count; ++i)
    if (const CUresult result = CheckInfo(infos[i], ordinal)) return result;
  // In the stream's order: after what it has been given so far.
  if (const CUresult result = cuStreamSynchronize(handle)) return result;
  for (unsigned i = 0; i < count; ++i) {
    const bool mipmap = infos[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    if (const CUresult result = mipmap ? MapMipmap(infos[i], ordinal) : MapArray(infos[i], ordinal))
      return result;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo* infos, unsigned int count, CUstream handle) {
  return cuMemMapArrayAsync(infos, count, Ptsz(handle));
}

}  // extern "C"
