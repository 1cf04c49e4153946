// SPDX-License-Identifier: Apache-2.0
// cuMemAddressReserve, cuMemCreate, cuMemMap and their kin.
#include "cpu-device/driver/work/vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/base/memfd.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {
namespace {

constexpr const char* kName = "farcall-device-";  // and its ordinal

Registry<PhysicalMemory>& Memories() {
  static auto* memories = new Registry<PhysicalMemory>;
  return *memories;
}

void* At(uint64_t address) {
  return reinterpret_cast<void*>(address);
}

bool Aligned(uint64_t value) {
  return value % kVmmGranularity == 0;
}

CUmemGenericAllocationHandle HandleOf(const PhysicalMemory* memory) {
  return reinterpret_cast<CUmemGenericAllocationHandle>(memory);
}

CUresult CheckProp(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if ((prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return FindDevice(prop->location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

// The device a shared descriptor's memory belongs to, by the memfd's name; -1 = none of ours.
int OrdinalOf(int fd) {
  const std::string name = MemfdName(fd), prefix = kName;
  return name.starts_with(prefix) ? atoi(name.c_str() + prefix.size()) : -1;
}

uint64_t Reserve(uint64_t size, uint64_t align, uint64_t hint) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint != 0 && hint % align == 0) {
    void* got = mmap(At(hint), size, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == At(hint)) return hint;
    if (got != MAP_FAILED) munmap(got, size);  // a kernel before 4.17
  }
  void* raw = mmap(nullptr, size + align, PROT_NONE, kFlags, -1, 0);
  if (raw == MAP_FAILED) return 0;
  const uint64_t start = reinterpret_cast<uint64_t>(raw);
  const uint64_t aligned = (start + align - 1) & ~(align - 1);
  if (aligned != start) munmap(raw, aligned - start);
  munmap(At(aligned + size), start + align - aligned);
  return aligned;
}

int Protection(const std::vector<CUmemAccess_flags>& access) {
  int protection = PROT_NONE;
  for (CUmemAccess_flags flags : access) {
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) protection |= PROT_READ;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_WRITE;
  }
  return protection;
}

// The mappings that make up [start, start + size) without gap or cut; false if they do not.
bool WholeMappings(Range& range, uint64_t start, uint64_t size, std::vector<Mapping*>* mappings) {
  uint64_t at = start;
  for (auto it = range.mappings.find(start); at < start + size; ++it) {
    if (it == range.mappings.end() || it->second.start != at) return false;
    mappings->push_back(&it->second);
    at += it->second.bytes;
  }
  return at == start + size;
}

// The same for access, which may cover a part of a mapping as long as all of it is mapped.
bool CoveringMappings(Range& range, uint64_t start, uint64_t size,
                      std::vector<Mapping*>* mappings) {
  auto it = range.mappings.upper_bound(start);
  if (it == range.mappings.begin()) return false;
  --it;
  for (uint64_t at = start; at < start + size; ++it) {
    if (it == range.mappings.end() || at < it->second.start ||
        at >= it->second.start + it->second.bytes)
      return false;
    mappings->push_back(&it->second);
    at = it->second.start + it->second.bytes;
  }
  return true;
}

}  // namespace

PhysicalMemory::~PhysicalMemory() {
  if (fd >= 0) close(fd);
  if (charged) TheDriver().devices[static_cast<size_t>(prop.location.id)]->Refund(bytes);
}

std::shared_ptr<PhysicalMemory> FindMemory(CUmemGenericAllocationHandle handle) {
  return Memories().Find(At(handle));
}

CUmemGenericAllocationHandle KeepMemory(std::shared_ptr<PhysicalMemory> memory) {
  const CUmemGenericAllocationHandle handle = HandleOf(memory.get());
  Memories().Add(std::move(memory));
  return handle;
}

// The executor checks a kernel's accesses against the largest reservation first: a window that a
// remoting server or a framework's allocator lives in.
void NoteReservations() {
  const Range largest = TheDriver().ranges.LargestReservation();
  SetReservedWindow(largest.start, largest.end());
}

}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckProp(prop)) return result;
  *granularity = kVmmGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const uint64_t align = std::max<uint64_t>(alignment, kVmmGranularity);
  if (out == nullptr || flags != 0 || size == 0 || !Aligned(size) || (align & (align - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (size > (1ull << 46) || align > (1ull << 40)) return CUDA_ERROR_OUT_OF_MEMORY;
  Range range;
  range.kind = RangeKind::kReservation;
  range.start = Reserve(size, align, hint);
  range.bytes = size;
  if (range.start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = range.start;
  TheDriver().ranges.Add(std::move(range));
  NoteReservations();
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  if (const CUresult result = CheckInitialized()) return result;
  Range range;
  const auto whole = [&](const Range& r) {
    return r.kind == RangeKind::kReservation && r.bytes == size && r.mappings.empty();
  };
  if (!TheDriver().ranges.Take(address, &range, whole)) return CUDA_ERROR_INVALID_VALUE;
  NoteReservations();
  munmap(At(address), size);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (handle == nullptr || flags != 0 || size == 0 || !Aligned(size))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckProp(prop)) return result;
  Device* device = FindDevice(prop->location.id);
  auto memory = std::make_shared<PhysicalMemory>();
  memory->prop = *prop;
  memory->bytes = size;
  if (size > device->total() || !device->Charge(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  memory->charged = true;
  memory->fd = NewMemfd(kName + std::to_string(device->ordinal), size);
  if (memory->fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = KeepMemory(std::move(memory));
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> memory = FindMemory(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (memory->handles.fetch_sub(1) == 1) Memories().Take(At(handle));
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> memory = FindMemory(handle);
  if (memory == nullptr || flags != 0 || size == 0 || !Aligned(size) || !Aligned(address) ||
      !Aligned(offset))
    return CUDA_ERROR_INVALID_VALUE;
  if (offset > memory->bytes || size > memory->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
  if (memory->multicast != nullptr) memory->multicast->AwaitTeam();
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  TheDriver().ranges.Update(address, [&](Range& range) {
    if (range.kind != RangeKind::kReservation || size > range.end() - address) return;
    const auto next = range.mappings.lower_bound(address);
    if (next != range.mappings.end() && next->first < address + size) return;
    if (next != range.mappings.begin() &&
        std::prev(next)->second.start + std::prev(next)->second.bytes > address)
      return;
    // Nothing of a multicast object's is to be touched by plain accesses: no page is behind it.
    const bool multicast = memory->multicast != nullptr;
    if (!multicast && mmap(At(address), size, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->fd,
                           static_cast<off_t>(offset)) == MAP_FAILED) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
      return;
    }
    static std::atomic<uint64_t> next_id{1ull << 48};
    Mapping mapping{address, size, offset, memory, {}, next_id.fetch_add(1), multicast};
    mapping.access.resize(TheDriver().devices.size(), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    range.mappings.emplace(address, std::move(mapping));
    result = CUDA_SUCCESS;
  });
  return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  if (const CUresult result = CheckInitialized()) return result;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  std::vector<std::shared_ptr<PhysicalMemory>> released;  // after the lock
  TheDriver().ranges.Update(address, [&](Range& range) {
    std::vector<Mapping*> mappings;
    if (range.kind != RangeKind::kReservation || size == 0 || size > range.end() - address) return;
    if (!WholeMappings(range, address, size, &mappings)) return;
    (void)mmap(At(address), size, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (Mapping* mapping : mappings) released.push_back(mapping->memory);
    range.mappings.erase(range.mappings.find(address), range.mappings.lower_bound(address + size));
    result = CUDA_SUCCESS;
  });
  return result;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* descriptors,
                        size_t count) {
  if (const CUresult result = CheckInitialized()) return result;
  if (descriptors == nullptr || count == 0 || size == 0 || !Aligned(size) || !Aligned(address))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (descriptors[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      return CUDA_ERROR_NOT_SUPPORTED;
    if (FindDevice(descriptors[i].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  TheDriver().ranges.Update(address, [&](Range& range) {
    std::vector<Mapping*> mappings;
    if (range.kind != RangeKind::kReservation || size > range.end() - address) return;
    if (!CoveringMappings(range, address, size, &mappings)) return;
    for (Mapping* mapping : mappings) {
      for (size_t i = 0; i < count; ++i)
        mapping->access[static_cast<size_t>(descriptors[i].location.id)] = descriptors[i].flags;
      if (!mapping->multicast)
        mprotect(At(mapping->start), mapping->bytes, Protection(mapping->access));
    }
    result = CUDA_SUCCESS;
  });
  return result;
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr address) {
  if (const CUresult result = CheckInitialized()) return result;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || FindDevice(location->id) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  TheDriver().ranges.Update(address, [&](Range& range) {
    std::vector<Mapping*> mappings;
    if (range.kind != RangeKind::kReservation || !CoveringMappings(range, address, 1, &mappings))
      return;
    *flags = mappings[0]->access[static_cast<size_t>(location->id)];
    result = CUDA_SUCCESS;
  });
  return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  if (const CUresult result = CheckInitialized()) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  const auto at = reinterpret_cast<uint64_t>(address);
  TheDriver().ranges.Update(at, [&](Range& range) {
    std::vector<Mapping*> mappings;
    if (range.kind != RangeKind::kReservation || !CoveringMappings(range, at, 1, &mappings)) return;
    const std::shared_ptr<PhysicalMemory>& memory = mappings[0]->memory;
    // A released handle comes back to life while a mapping holds its memory.
    if (memory->handles.fetch_add(1) == 0) Memories().Add(memory);
    *handle = HandleOf(memory.get());
    result = CUDA_SUCCESS;
  });
  return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> memory = FindMemory(handle);
  if (prop == nullptr || memory == nullptr || memory->multicast != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *prop = memory->prop;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> memory = FindMemory(handle);
  if (out == nullptr || memory == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if ((memory->prop.requestedHandleTypes & type) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (memory->multicast != nullptr) {
    Log(LogLevel::kError, "cuMemExportToShareableHandle: a multicast object is its process's own");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType type) {
  if (const CUresult result = CheckInitialized()) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  struct stat status;
  const int ordinal = OrdinalOf(fd);
  if (ordinal < 0 || FindDevice(ordinal) == nullptr || fstat(fd, &status) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto memory = std::make_shared<PhysicalMemory>();
  memory->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  memory->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  memory->bytes = static_cast<uint64_t>(status.st_size);
  memory->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory->fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = KeepMemory(std::move(memory));
  return CUDA_SUCCESS;
}

}  // extern "C"
