// SPDX-License-Identifier: Apache-2.0
// Device, managed and pinned host memory.
#include "cpu-device/driver/state/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/memory/mempool.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr uint64_t kPitchAlignment = 512;

CUresult Allocate(CUdeviceptr* out, size_t bytes, RangeKind kind, unsigned flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  const CUresult result = AllocateDevice(*context, bytes, kind, flags, nullptr, &address);
  if (result == CUDA_SUCCESS) *out = address;
  return result;
}

CUresult AllocateHostFor(void** out, size_t bytes, unsigned flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AllocateHost(*context, bytes, flags, out);
}

CUresult RegisterHost(void* pointer, size_t bytes, unsigned flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                              CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (pointer == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  // Memory that is not there cannot be registered.
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = reinterpret_cast<uint64_t>(pointer) & ~(page - 1);
  const uint64_t span =
      (reinterpret_cast<uint64_t>(pointer) + bytes - start + page - 1) & ~(page - 1);
  if (msync(reinterpret_cast<void*>(start), span, MS_ASYNC) != 0) return CUDA_ERROR_INVALID_VALUE;
  Range range;
  range.start = reinterpret_cast<uint64_t>(pointer);
  range.bytes = bytes;
  range.kind = RangeKind::kHostRegistered;
  range.device = context->device().ordinal;
  range.context = context.get();
  range.flags = flags;
  return TheDriver().ranges.Add(std::move(range)) ? CUDA_SUCCESS
                                                  : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const Device& device = context->device();
  if (free_bytes != nullptr) *free_bytes = device.total() - device.used();
  if (total_bytes != nullptr) *total_bytes = device.total();
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  return Allocate(out, bytes, RangeKind::kDevice, 0);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width, size_t height,
                            unsigned int element) {
  if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  if (element != 4 && element != 8 && element != 16) return CUDA_ERROR_INVALID_VALUE;
  if (width > (1ull << 48) / height) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t row = (width + kPitchAlignment - 1) & ~(kPitchAlignment - 1);
  const CUresult result = Allocate(out, row * height, RangeKind::kDevice, 0);
  if (result == CUDA_SUCCESS) *pitch = row;
  return result;
}

CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  return Allocate(out, bytes, RangeKind::kManaged, flags);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (address == 0) return CUDA_SUCCESS;
  CUresult freed = CUDA_SUCCESS;
  if (FreeGraphMemory(address, &freed)) return freed;
  Range range;
  if (!TheDriver().ranges.Find(address, &range) || range.start != address)
    return CUDA_ERROR_INVALID_VALUE;
  if (range.kind == RangeKind::kOpened && range.pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Freeing waits for the work that may still use the memory: programs rely on it.
  if (const CUresult result =
          (range.context != nullptr ? range.context : context.get())->Synchronize())
    return result;
  if (range.pool != nullptr) range.pool->Unuse(range.bytes);
  return FreeDevice(
      address, {RangeKind::kDevice, RangeKind::kManaged, RangeKind::kPool, RangeKind::kOpened});
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  Range range;
  if (!TheDriver().ranges.Find(address, &range) || range.kind == RangeKind::kHostRegistered)
    return CUDA_ERROR_NOT_FOUND;
  uint64_t start = range.start, size = range.bytes;
  if (range.kind == RangeKind::kReservation) {
    auto it = range.mappings.upper_bound(address);
    if (it == range.mappings.begin() || (--it)->second.start + it->second.bytes <= address)
      return CUDA_ERROR_NOT_FOUND;
    start = it->second.start;
    size = it->second.bytes;
  }
  if (base != nullptr) *base = start;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  return (flags & ~kKnown) != 0 ? CUDA_ERROR_INVALID_VALUE : AllocateHostFor(out, bytes, flags);
}

CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return AllocateHostFor(out, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (pointer == nullptr) return CUDA_SUCCESS;
  Range range;
  if (!TheDriver().ranges.Find(reinterpret_cast<uint64_t>(pointer), &range))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = range.context->Synchronize()) return result;
  return FreeHost(pointer);
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  return RegisterHost(pointer, bytes, flags);
}
CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return RegisterHost(pointer, bytes, flags);
}

CUresult cuMemHostUnregister(void* pointer) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Range range;
  const auto wanted = [](const Range& r) { return r.kind == RangeKind::kHostRegistered; };
  if (!TheDriver().ranges.Find(reinterpret_cast<uint64_t>(pointer), &range))
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  range.context->Synchronize();
  return TheDriver().ranges.Take(reinterpret_cast<uint64_t>(pointer), &range, wanted)
             ? CUDA_SUCCESS
             : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Range range;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (!TheDriver().ranges.Find(address, &range) || !(range.on_host() || range.managed()))
    return CUDA_ERROR_INVALID_VALUE;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  Range range;
  if (flags == nullptr || !TheDriver().ranges.Find(reinterpret_cast<uint64_t>(pointer), &range) ||
      !range.on_host())
    return CUDA_ERROR_INVALID_VALUE;
  // Unified addressing maps all pinned memory.
  *flags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

// Managed memory is one memory here: hints and prefetches are checked and have nothing to do.
CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise, CUmemLocation) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  Range range;
  const bool managed = TheDriver().ranges.Find(address, &range) && range.managed();
  return managed && bytes <= range.end() - address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice) {
  return cuMemAdvise_v2(address, bytes, advice, CUmemLocation{});
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation, unsigned int flags,
                               CUstream stream) {
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  if (context->FindStream(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Range range;
  const bool managed = TheDriver().ranges.Find(address, &range) && range.managed();
  return flags == 0 && managed && bytes <= range.end() - address ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t bytes, CUmemLocation where,
                                    unsigned int flags, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, where, flags, Ptsz(stream));
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, CUmemLocation{}, 0, stream);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t bytes, CUdevice, CUstream stream) {
  return cuMemPrefetchAsync_v2(address, bytes, CUmemLocation{}, 0, Ptsz(stream));
}

}  // extern "C"
