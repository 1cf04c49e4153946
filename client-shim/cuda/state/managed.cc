// SPDX-License-Identifier: Apache-2.0
// Managed memory: host memory the device reaches at the same address (mirror.h). Advice and
// prefetches are remembered for who asks; where the pages are, they do not change.
#include "client-shim/cuda/state/managed.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/objects/shared_host.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

constexpr CUmemLocation kNowhere = {CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};

// What was asked of some pages.
struct Advice {
  bool read_mostly = false;
  CUmemLocation preferred = kNowhere;
  CUmemLocation prefetched = kNowhere;
  std::vector<int> accessed_by;  // devices, or CU_DEVICE_CPU
};

struct Managed {
  uint64_t bytes = 0;
  bool is_variable = false;           // not the program's to free
  std::map<uint64_t, Advice> advice;  // by the first address of the pages it is about
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, Managed> allocations;
};
State* g_managed = new State;

// The allocation the whole range lies in.
Managed* FindLocked(uint64_t address, uint64_t bytes, uint64_t* base) {
  auto after = g_managed->allocations.upper_bound(address);
  if (after == g_managed->allocations.begin() || bytes == 0) return nullptr;
  auto& [start, managed] = *std::prev(after);
  *base = start;
  return Window{start, managed.bytes}.Contains(address, bytes) ? &managed : nullptr;
}

// Applies `change` to the advice of whole pages around the range.
template <typename Change>
bool ChangeAdvice(uint64_t address, uint64_t bytes, Change change) {
  std::lock_guard lock(g_managed->mutex);
  uint64_t base = 0;
  Managed* managed = FindLocked(address, bytes, &base);
  if (managed == nullptr) return false;
  uint64_t from = address / kHostPageBytes * kHostPageBytes;
  uint64_t to = AlignUp(address + bytes, kHostPageBytes);
  for (uint64_t edge : {from, to}) {
    auto after = managed->advice.upper_bound(edge);
    if (after != managed->advice.begin()) managed->advice.emplace(edge, std::prev(after)->second);
  }
  for (auto at = managed->advice.find(from); at != managed->advice.end() && at->first < to; ++at)
    change(&at->second);
  return true;
}

CUresult CheckLocation(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return FindDevice(location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemLocation AsLocation(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

int AsDevice(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

bool Same(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && (a.type != CU_MEM_LOCATION_TYPE_DEVICE || a.id == b.id);
}

// What all of the range has in common; of a location: nowhere, if it differs.
bool CommonAdvice(uint64_t address, uint64_t bytes, Advice* common) {
  std::lock_guard lock(g_managed->mutex);
  uint64_t base = 0;
  Managed* managed = FindLocked(address, bytes, &base);
  if (managed == nullptr) return false;
  auto at = std::prev(managed->advice.upper_bound(address));
  *common = at->second;
  for (++at; at != managed->advice.end() && at->first < address + bytes; ++at) {
    const Advice& next = at->second;
    common->read_mostly = common->read_mostly && next.read_mostly;
    if (!Same(common->preferred, next.preferred)) common->preferred = kNowhere;
    if (!Same(common->prefetched, next.prefetched)) common->prefetched = kNowhere;
    std::erase_if(common->accessed_by, [&](int device) {
      return std::find(next.accessed_by.begin(), next.accessed_by.end(), device) ==
             next.accessed_by.end();
    });
  }
  return true;
}

CUresult StoreInt(void* data, size_t bytes, int value) {
  if (bytes != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

CUresult StoreRangeAttribute(void* data, size_t bytes, CUmem_range_attribute attribute,
                             const Advice& advice) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return StoreInt(data, bytes, advice.read_mostly ? 1 : 0);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return StoreInt(data, bytes, AsDevice(advice.preferred));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return StoreInt(data, bytes, AsDevice(advice.prefetched));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return StoreInt(data, bytes, advice.preferred.type);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return StoreInt(data, bytes, advice.preferred.id);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return StoreInt(data, bytes, advice.prefetched.type);
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return StoreInt(data, bytes, advice.prefetched.id);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      if (bytes == 0 || bytes % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
      for (size_t i = 0; i < bytes / sizeof(int); ++i) {
        int device = i < advice.accessed_by.size() ? advice.accessed_by[i] : CU_DEVICE_INVALID;
        std::memcpy(static_cast<char*>(data) + i * sizeof(int), &device, sizeof(device));
      }
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

void AddManagedRange(CUdeviceptr pointer, size_t bytes) {
  std::lock_guard lock(g_managed->mutex);
  g_managed->allocations[pointer] = {AlignUp(bytes, kHostPageBytes), true, {{pointer, Advice()}}};
}

void DropManagedRange(CUdeviceptr pointer) {
  std::lock_guard lock(g_managed->mutex);
  g_managed->allocations.erase(pointer);
}

bool FreeManaged(CUdeviceptr pointer, CUresult* status) {
  {
    std::lock_guard lock(g_managed->mutex);
    auto found = g_managed->allocations.find(pointer);
    if (found == g_managed->allocations.end() || found->second.is_variable) return false;
    g_managed->allocations.erase(found);
  }
  Allocation allocation;
  Memory().Remove(pointer, &allocation);
  // Device and program have finished with it once this has been waited for.
  *status = allocation.context->alive.load() ? Call_cuCtxSynchronize_v2(AsCuda(allocation.context))
                                             : CUDA_SUCCESS;
  EndMirror(pointer);
  HostAddresses().Give(pointer, allocation.bytes);
  return true;
}

CUresult Call_cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  if (dptr == nullptr || bytesize == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
    return CUDA_ERROR_INVALID_VALUE;
  HostWindow& window = HostAddresses();
  if (!window.available()) return NotSupported(CallId::cuMemAllocManaged);
  Context* context = CurrentContext();
  uint64_t address = bytesize > (1ull << 40) ? 0 : window.Take(bytesize);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  auto make = [&] {
    CUresult shared = ShareHostMemory(address, bytesize, context->server_device);
    if (shared != CUDA_ERROR_NOT_SUPPORTED) return shared;
    if (!HostWindow::Back(address, bytesize)) return CUDA_ERROR_OUT_OF_MEMORY;
    return MakeMirror(address, bytesize, address, MirrorKind::kManaged, context->server_device);
  };
  CUresult status = make();
  if (status == CUDA_ERROR_OUT_OF_MEMORY && GiveUpCredit(context->server_device, context->slot))
    status = make();
  if (status != CUDA_SUCCESS) {
    window.Give(address, bytesize);
    return status;
  }
  if (flags == CU_MEM_ATTACH_HOST) SetConcurrent(address);
  {
    std::lock_guard lock(g_managed->mutex);
    g_managed->allocations[address] = {
        AlignUp(bytesize, kHostPageBytes), false, {{address, Advice()}}};
  }
  Allocation allocation;
  allocation.base = address;
  allocation.bytes = bytesize;
  allocation.kind = MemoryKind::kManaged;
  allocation.mirrored = true;
  allocation.context = context;
  allocation.device = context->device;
  allocation.server_device = context->server_device;
  allocation.id = NewBufferId();
  Memory().Insert(allocation);
  *dptr = address;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUmemLocation location) {
  bool of_location = advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
                     advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
  if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
    return CUDA_ERROR_INVALID_VALUE;
  if (of_location) {
    CUresult status = CheckLocation(location);
    if (status != CUDA_SUCCESS) return status;
  }
  int device = AsDevice(location);
  auto change = [&](Advice* of) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        of->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        of->preferred = location;
        return;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        of->preferred = kNowhere;
        return;
      default:
        std::erase(of->accessed_by, device);
        if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY) of->accessed_by.push_back(device);
        return;
    }
  };
  return ChangeAdvice(devPtr, count, change) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return Call_cuMemAdvise_v2(devPtr, count, advice, AsLocation(device));
}

CUresult Call_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  status = CheckLocation(location);
  if (status != CUDA_SUCCESS) return status;
  bool known = ChangeAdvice(devPtr, count, [&](Advice* advice) { advice->prefetched = location; });
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                 CUstream hStream) {
  return Call_cuMemPrefetchAsync_v2(devPtr, count, AsLocation(dstDevice), 0, hStream);
}

CUresult Call_cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                     CUdeviceptr devPtr, size_t count) {
  Advice advice;
  if (!CommonAdvice(devPtr, count, &advice)) return CUDA_ERROR_INVALID_VALUE;
  return StoreRangeAttribute(data, dataSize, attribute, advice);
}

CUresult Call_cuMemRangeGetAttributes(void** data, size_t* dataSizes,
                                      CUmem_range_attribute* attributes, size_t numAttributes,
                                      CUdeviceptr devPtr, size_t count) {
  Advice advice;
  if (data == nullptr || dataSizes == nullptr || attributes == nullptr || numAttributes == 0 ||
      !CommonAdvice(devPtr, count, &advice))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < numAttributes; ++i) {
    CUresult status = StoreRangeAttribute(data[i], dataSizes[i], attributes[i], advice);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

// The program may use attached memory while other streams' kernels run.
CUresult Call_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                     unsigned int flags) {
  CUresult status = CUDA_SUCCESS;
  WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE)
    return CUDA_ERROR_INVALID_VALUE;
  // A single stream's memory: of a stream that the program made.
  if (flags == CU_MEM_ATTACH_SINGLE && FindStream(hStream) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  if (!Memory().Find(dptr, &found) || found.kind != MemoryKind::kManaged || found.base != dptr ||
      (length != 0 && length != found.bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL) SetConcurrent(dptr);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
