// SPDX-License-Identifier: Apache-2.0
// Multicast objects: teams and bindings are counted here, so that the server is told of each once.
// Partner: server/calls/memory/multicast.cc.
#include <algorithm>
#include <mutex>

#include "client-shim/core/memory/reservations.h"
#include "client-shim/core/memory_map.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/core/session/session.h"
#include "client-shim/cuda/objects/physical_memory.h"
#include "generated/client/calls.h"
#include "sync/cond_var.h"

namespace farcall::client {

namespace {

CondVar& TeamChanged() {
  static auto* changed = new CondVar;
  return *changed;
}

bool Aligned(uint64_t value) {
  return value % kChunkGranularityBytes == 0;
}

bool Supported(const Device* device) {
  return device != nullptr && device->Attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) != 0;
}

PhysicalMemory* FindMulticast(uint64_t handle) {
  PhysicalMemory* found = FindPhysicalMemory(handle);
  return found != nullptr && found->multicast != nullptr ? found : nullptr;
}

bool InTeam(const Multicast& multicast, int device) {
  return std::find(multicast.team.begin(), multicast.team.end(), device) != multicast.team.end();
}

bool Fits(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return Aligned(offset) && offset <= limit && bytes <= limit - offset;
}

// It stays while a record about it is under way.
void LetGo(PhysicalMemory* memory) {
  --memory->mappings;
  ReleaseIfUnused(memory);
}

CUresult CheckProperties(const CUmulticastObjectProp* prop) {
  if (prop == nullptr || prop->flags != 0 || prop->numDevices == 0 || prop->size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!Supported(FindDevice(0)) ||
      (prop->handleTypes & ~uint64_t{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return prop->numDevices > CurrentSession()->welcome().devices.size() || !Aligned(prop->size)
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult CheckBinding(const PhysicalMemory& object, uint64_t offset, const PhysicalMemory* memory,
                      uint64_t memory_offset, uint64_t bytes) {
  if (bytes == 0 || !Aligned(bytes) || memory == nullptr || memory->multicast != nullptr ||
      !Fits(offset, bytes, object.bytes) || !Fits(memory_offset, bytes, memory->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return object.handle_types != CU_MEM_HANDLE_TYPE_NONE &&
                 memory->handle_types == CU_MEM_HANDLE_TYPE_NONE
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult AskToBind(const PhysicalMemory& object, const Multicast::Binding& binding,
                   uint64_t memory_offset) {
  FixedBody<40> body;
  body.Put<uint64_t>(object.handle);
  body.Put<uint64_t>(binding.offset);
  body.Put<uint64_t>(binding.memory->handle);
  body.Put<uint64_t>(memory_offset);
  body.Put<uint64_t>(binding.bytes);
  return RoundTrip(CallId::cuMulticastBindMem, body.bytes(), nullptr);
}

// `memory` is live: whether by its handle or because it is mapped.
CUresult Bind(std::unique_lock<std::mutex>& lock, PhysicalMemory* object, uint64_t offset,
              PhysicalMemory* memory, uint64_t memory_offset, uint64_t bytes) {
  CUresult status = CheckBinding(*object, offset, memory, memory_offset, bytes);
  if (status != CUDA_SUCCESS) return status;
  ++memory->mappings;  // the binding's, once it is one
  if (!AwaitTeam(lock, object->handle)) {
    LetGo(memory);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!InTeam(*object->multicast, memory->device)) {
    LetGo(memory);
    return CUDA_ERROR_INVALID_DEVICE;
  }
  ++object->mappings;
  Multicast::Binding binding = {offset, bytes, memory};
  lock.unlock();
  status = AskToBind(*object, binding, memory_offset);
  lock.lock();
  if (status == CUDA_SUCCESS)
    object->multicast->bindings.push_back(binding);
  else
    LetGo(memory);
  LetGo(object);
  return status;
}

}  // namespace

bool AwaitTeam(std::unique_lock<std::mutex>& lock, uint64_t handle) {
  PhysicalMemory* object = FindMulticast(handle);
  while (object != nullptr && !object->multicast->whole()) {
    TeamChanged().wait(lock);
    object = FindMulticast(handle);
  }
  return object != nullptr;
}

void UnbindAll(Multicast* multicast) {
  for (const Multicast::Binding& binding : multicast->bindings) LetGo(binding.memory);
  TeamChanged().notify_all();
}

CUresult Call_cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle,
                                const CUmulticastObjectProp* prop) {
  if (mcHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CheckProperties(prop);
  if (status != CUDA_SUCCESS) return status;
  uint64_t made = NewHandle(HandleKind::kMemHandle, &status);
  if (status != CUDA_SUCCESS) return status;
  FixedBody<24> body;
  body.Put<uint64_t>(made);
  body.Put<uint64_t>(prop->size);
  body.Put<uint64_t>(prop->numDevices);
  status = RoundTrip(CallId::cuMulticastCreate, body.bytes(), nullptr);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kMemHandle, made);
    return status;
  }
  auto* object = new PhysicalMemory;
  object->handle = made;
  object->bytes = prop->size;
  object->handle_types = static_cast<CUmemAllocationHandleType>(prop->handleTypes);
  object->multicast = std::make_unique<Multicast>();
  object->multicast->team_size = prop->numDevices;
  Handles(HandleKind::kMemHandle).SetObject(made, object);
  *mcHandle = made;
  return CUDA_SUCCESS;
}

CUresult Call_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
  std::unique_lock lock(UserRanges().mutex());
  PhysicalMemory* object = FindMulticast(mcHandle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device != nullptr) NoteServer(device->session);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (!Supported(device)) return CUDA_ERROR_NOT_SUPPORTED;
  if (object->multicast->whole() || InTeam(*object->multicast, dev))
    return CUDA_ERROR_INVALID_VALUE;
  ++object->mappings;
  lock.unlock();
  FixedBody<16> body;
  body.Put<uint64_t>(mcHandle);
  body.Put<int32_t>(device->server_index);
  CUresult status = RoundTrip(CallId::cuMulticastAddDevice, body.padded(), nullptr);
  lock.lock();
  if (status == CUDA_SUCCESS) {
    if (object->multicast->team.empty()) object->device = dev;
    object->multicast->team.push_back(dev);
    TeamChanged().notify_all();
  }
  LetGo(object);
  return status;
}

CUresult Call_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                 CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                 size_t size, unsigned long long flags) {
  std::unique_lock lock(UserRanges().mutex());
  PhysicalMemory* object = FindMulticast(mcHandle);
  if (object == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Bind(lock, object, mcOffset, FindPhysicalMemory(memHandle), memOffset, size);
}

CUresult Call_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                  CUdeviceptr memptr, size_t size, unsigned long long flags) {
  Reservations& ranges = UserRanges();
  std::unique_lock lock(ranges.mutex());
  PhysicalMemory* object = FindMulticast(mcHandle);
  if (object == nullptr || flags != 0 || !Aligned(memptr)) return CUDA_ERROR_INVALID_VALUE;
  Allocation found;
  if (Memory().Find(memptr, &found) && found.pool != nullptr) {
    Log(LogLevel::kWarn,
        "memory of a pool cannot be bound to a multicast object; cuMemCreate's can");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  std::vector<MappedPiece*> pieces = ranges.Covering(memptr, size);
  if (size == 0 || pieces.size() != 1) return CUDA_ERROR_INVALID_VALUE;
  const MappedPiece& piece = *pieces[0];
  return Bind(lock, object, mcOffset, piece.memory, piece.offset + (memptr - piece.address), size);
}

CUresult Call_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                size_t mcOffset, size_t size) {
  std::lock_guard lock(UserRanges().mutex());
  PhysicalMemory* object = FindMulticast(mcHandle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = FindDevice(dev);
  if (device != nullptr) NoteServer(device->session);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::vector<Multicast::Binding>& bindings = object->multicast->bindings;
  auto bound = std::find_if(bindings.begin(), bindings.end(), [&](const auto& binding) {
    return binding.memory->device == dev && binding.offset == mcOffset && binding.bytes == size;
  });
  if (bound == bindings.end()) return CUDA_ERROR_INVALID_VALUE;
  FixedBody<32> body;
  body.Put<uint64_t>(mcHandle);
  body.Put<uint64_t>(mcOffset);
  body.Put<uint64_t>(size);
  body.Put<int32_t>(device->server_index);
  CUresult posted = PostRecord(MakeRecord(CallId::cuMulticastUnbind, body.padded()));
  if (posted != CUDA_SUCCESS) return posted;
  PhysicalMemory* memory = bound->memory;
  bindings.erase(bound);
  LetGo(memory);
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
