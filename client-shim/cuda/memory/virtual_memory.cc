// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: reserving is local; memory is made by the server, which charges it;
// mapping is a post.
#include <algorithm>

#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/memory/share_descriptor.h"
#include "client-shim/cuda/objects/physical_memory.h"
#include "client-shim/cuda/state/memory.h"
#include "generated/client/calls.h"
#include "proto/cuda/memory_flags.h"

namespace farcall::client {

namespace {

constexpr uint64_t kLargestReservation = 1ull << 46;
constexpr uint64_t kLargestAlignment = 1ull << 40;

bool Aligned(uint64_t value) {
  return value % kChunkGranularityBytes == 0;
}

CUresult CheckProperties(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if ((prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0 ||
      prop->allocFlags.gpuDirectRDMACapable != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  if ((prop->allocFlags.usage & ~kMemoryUsages) != 0) return CUDA_ERROR_INVALID_VALUE;
  return FindDevice(prop->location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

// A late error of an older call stays where it is: the record is appended all the same.
CUresult PostKept(CallId call, std::span<const std::byte> body) {
  return PostRecord(MakeRecord(call, body));
}

void KeepMemory(uint64_t handle, uint64_t bytes, int device, CUmemAllocationHandleType types) {
  auto* memory = new PhysicalMemory;
  memory->handle = handle;
  memory->bytes = bytes;
  memory->device = device;
  memory->handle_types = types;
  Handles(HandleKind::kMemHandle).SetObject(handle, memory);
}

CUresult AskToCreate(uint64_t handle, uint64_t bytes, const Device& device, uint32_t flags) {
  FixedBody<24> body;
  body.Put<uint64_t>(handle);
  body.Put<uint64_t>(bytes);
  body.Put<int32_t>(device.server_index);
  body.Put<uint32_t>(flags);
  CUresult status = RoundTrip(CallId::cuMemCreate, body.bytes(), nullptr);
  if (status != CUDA_ERROR_OUT_OF_MEMORY) return status;
  Context* context = ContextFor(device.session);
  uint16_t slot = context == nullptr ? 0 : context->slot;
  if (!GiveUpCredit(device.server_index, slot)) return status;
  return RoundTrip(CallId::cuMemCreate, body.bytes(), nullptr);
}

// What the map tells of pointers into a piece.
void NotePiece(const MappedPiece& piece) {
  Allocation allocation;
  allocation.base = piece.address;
  allocation.bytes = piece.bytes;
  allocation.device = piece.memory->device;
  allocation.server_device = FindDevice(piece.memory->device)->server_index;
  allocation.id = NewBufferId();
  allocation.mapped_handle = piece.memory->handle;
  allocation.accessible = false;
  allocation.handle_types = piece.memory->handle_types;
  Memory().Insert(allocation);
}

}  // namespace

PhysicalMemory* FindPhysicalMemory(uint64_t handle) {
  auto* memory = FindObject<PhysicalMemory>(HandleKind::kMemHandle, handle);
  return memory != nullptr && memory->references != 0 ? memory : nullptr;
}

CUresult ReleaseIfUnused(PhysicalMemory* memory) {
  if (!memory->unused()) return CUDA_SUCCESS;
  FixedBody<8> body;
  body.Put<uint64_t>(memory->handle);
  CUresult posted = PostKept(CallId::cuMemRelease, body.bytes());
  FreeHandle(HandleKind::kMemHandle, memory->handle);
  std::unique_ptr<Multicast> multicast = std::move(memory->multicast);
  delete memory;
  if (multicast != nullptr) UnbindAll(multicast.get());
  return posted;
}

// The server backs everything in chunks of one size, which devices take as they are.
CUresult Call_cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                            CUmemAllocationGranularity_flags option) {
  if (granularity == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                 option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckProperties(prop);
  if (status == CUDA_SUCCESS) *granularity = kChunkGranularityBytes;
  return status;
}

CUresult Call_cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                  unsigned long long flags) {
  uint64_t align = std::max<uint64_t>(alignment, kChunkGranularityBytes);
  if (ptr == nullptr || flags != 0 || size == 0 || !Aligned(size) || (align & (align - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  if (!ranges.has_window(CurrentServer())) return NotSupported(CallId::cuMemAddressReserve);
  if (size > kLargestReservation || align > kLargestAlignment) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t base = ranges.Reserve(size, align, addr, false, CurrentServer());
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *ptr = base;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  return ranges.Free(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Call_cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                          const CUmemAllocationProp* prop, unsigned long long flags) {
  if (handle == nullptr || flags != 0 || size == 0 || !Aligned(size))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckProperties(prop);
  if (status != CUDA_SUCCESS) return status;
  const Device& device = *FindDevice(prop->location.id);
  const ServerScope scope(device.session);
  if (!UserRanges().has_window(CurrentServer())) return NotSupported(CallId::cuMemCreate);
  if (size > kLargestReservation) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t made = NewHandle(HandleKind::kMemHandle, &status);
  if (status != CUDA_SUCCESS) return status;
  uint32_t make = uint32_t{prop->allocFlags.usage} << kMemoryUsageShift;
  if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) make |= kMemoryExportable;
  status = AskToCreate(made, size, device, make);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kMemHandle, made);
    return status;
  }
  KeepMemory(made, size, prop->location.id, prop->requestedHandleTypes);
  *handle = made;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(UserRanges().mutex());
  PhysicalMemory* memory = FindPhysicalMemory(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --memory->references;
  return ReleaseIfUnused(memory);
}

CUresult Call_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  std::vector<MappedPiece*> pieces = ranges.Covering(reinterpret_cast<uint64_t>(addr), 1);
  if (pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
  ++pieces[0]->memory->references;
  *handle = pieces[0]->memory->handle;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (flags != 0 || size == 0 || !Aligned(size) || !Aligned(ptr) || !Aligned(offset))
    return CUDA_ERROR_INVALID_VALUE;
  Reservations& ranges = UserRanges();
  std::unique_lock lock(ranges.mutex());
  PhysicalMemory* memory = FindPhysicalMemory(handle);
  if (memory != nullptr && memory->multicast != nullptr && !AwaitTeam(lock, handle))
    return CUDA_ERROR_INVALID_VALUE;
  if (memory == nullptr || offset > memory->bytes || size > memory->bytes - offset ||
      !ranges.MayMap(ptr, size))
    return CUDA_ERROR_INVALID_VALUE;
  NoteAddress(ptr);
  FixedBody<32> body;
  body.Put<uint64_t>(ptr);
  body.Put<uint64_t>(size);
  body.Put<uint64_t>(offset);
  body.Put<uint64_t>(handle);
  CUresult posted = PostKept(CallId::cuMemMap, body.bytes());
  if (posted != CUDA_SUCCESS) return posted;
  MappedPiece piece = {ptr, size, memory, {}, offset};
  ranges.Map(piece);
  NotePiece(piece);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemUnmap(CUdeviceptr ptr, size_t size) {
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  std::vector<MappedPiece*> pieces = ranges.Whole(ptr, size);
  if (pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
  NoteAddress(ptr);
  FixedBody<16> body;
  body.Put<uint64_t>(ptr);
  body.Put<uint64_t>(size);
  CUresult posted = PostKept(CallId::cuMemUnmap, body.bytes());
  if (posted != CUDA_SUCCESS) return posted;
  std::vector<PhysicalMemory*> memories;
  for (MappedPiece* piece : pieces) {
    Allocation removed;
    Memory().Remove(piece->address, &removed);
    memories.push_back(piece->memory);
  }
  ranges.Unmap(ptr, size);
  std::sort(memories.begin(), memories.end());
  memories.erase(std::unique(memories.begin(), memories.end()), memories.end());
  for (PhysicalMemory* memory : memories) ReleaseIfUnused(memory);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                             size_t count) {
  if (desc == nullptr || count == 0 || size == 0 || !Aligned(ptr) || !Aligned(size))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
        desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    if (FindDevice(desc[i].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  }
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  std::vector<MappedPiece*> pieces = ranges.Covering(ptr, size);
  if (pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
  CUresult posted = CUDA_SUCCESS;
  for (size_t i = 0; i < count && posted == CUDA_SUCCESS; ++i) {
    const Device* device = FindDevice(desc[i].location.id);
    NoteAddress(ptr);
    NoteServer(device->session);  // another server's devices do not reach it
    FixedBody<24> body;
    body.Put<uint64_t>(ptr);
    body.Put<uint64_t>(size);
    body.Put<int32_t>(device->server_index);
    body.Put<uint32_t>(desc[i].flags);
    posted = PostKept(CallId::cuMemSetAccess, body.bytes());
    for (MappedPiece* piece : pieces) {
      piece->access.resize(VisibleDeviceCount(), CU_MEM_ACCESS_FLAGS_PROT_NONE);
      piece->access[desc[i].location.id] = desc[i].flags;
      bool any = std::any_of(piece->access.begin(), piece->access.end(), [](CUmemAccess_flags f) {
        return f != CU_MEM_ACCESS_FLAGS_PROT_NONE;
      });
      // Copies and fills have no business there: only multimem instructions have.
      Memory().SetAccessible(piece->address, any && piece->memory->multicast == nullptr);
    }
  }
  return posted;
}

CUresult Call_cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                             CUdeviceptr ptr) {
  if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      FindDevice(location->id) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Reservations& ranges = UserRanges();
  std::lock_guard lock(ranges.mutex());
  std::vector<MappedPiece*> pieces = ranges.Covering(ptr, 1);
  if (pieces.empty()) return CUDA_ERROR_INVALID_VALUE;
  const std::vector<CUmemAccess_flags>& access = pieces[0]->access;
  *flags = access.empty() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : access[location->id];
  return CUDA_SUCCESS;
}

CUresult Call_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                     CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(UserRanges().mutex());
  PhysicalMemory* memory = FindPhysicalMemory(handle);
  if (prop == nullptr || memory == nullptr || memory->multicast != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *prop = {};
  prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop->location.id = memory->device;
  prop->requestedHandleTypes = memory->handle_types;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemExportToShareableHandle(void* shareableHandle,
                                           CUmemGenericAllocationHandle handle,
                                           CUmemAllocationHandleType handleType,
                                           unsigned long long flags) {
  if (shareableHandle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  {
    std::lock_guard lock(UserRanges().mutex());
    PhysicalMemory* memory = FindPhysicalMemory(handle);
    if (memory == nullptr || (memory->handle_types & handleType) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (memory->multicast != nullptr) {
      Log(LogLevel::kWarn, "a multicast object cannot be lent to other processes");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  FixedBody<8> body;
  body.Put<uint64_t>(handle);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuMemExportToShareableHandle, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  ShareToken token;
  token.high = outputs.Get<uint64_t>();
  token.low = outputs.Get<uint64_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  int descriptor = NewShareDescriptor(ShareKind::kMemory, {token, 0});
  if (descriptor < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(shareableHandle) = descriptor;
  return CUDA_SUCCESS;
}

CUresult Call_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                             CUmemAllocationHandleType shHandleType) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  Share share;
  if (!ReadShareDescriptor(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)),
                           ShareKind::kMemory, &share))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  uint64_t made = NewHandle(HandleKind::kMemHandle, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<24> body;
  body.Put<uint64_t>(made);
  body.Put<uint64_t>(share.token.high);
  body.Put<uint64_t>(share.token.low);
  Reply reply;
  status = RoundTrip(CallId::cuMemImportFromShareableHandle, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kMemHandle, made);
    return status;
  }
  Reader outputs = reply.outputs();
  int device = DeviceOfServer(CurrentSession(), outputs.Get<int32_t>());
  auto bytes = outputs.Get<uint64_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  KeepMemory(made, bytes, device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (device < 0) {  // CUDA_VISIBLE_DEVICES hides it here
    Call_cuMemRelease(made);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *handle = made;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
