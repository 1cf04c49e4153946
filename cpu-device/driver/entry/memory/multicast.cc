// SPDX-License-Identifier: Apache-2.0
// Multicast objects: cuMulticastCreate and its kin. Multimem instructions alone reach what is
// bound; the addresses have no memory of their own.
#include <algorithm>

#include "cpu-device/driver/base/log.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/work/vmm.h"

namespace farcall::cpu_device {
namespace {

bool Aligned(uint64_t value) {
  return value % kVmmGranularity == 0;
}

bool Supported(int ordinal) {
  int value = 0;
  const Device* device = FindDevice(ordinal);
  DeviceAttribute(device->profile, device->number, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, &value);
  return value != 0;
}

CUresult CheckProp(const CUmulticastObjectProp* prop) {
  const Driver& driver = TheDriver();
  if (prop == nullptr || prop->flags != 0 || prop->numDevices == 0 || prop->size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!Supported(0) || (prop->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return prop->numDevices > static_cast<unsigned>(driver.profile.devices) ? CUDA_ERROR_INVALID_VALUE
                                                                          : CUDA_SUCCESS;
}

std::shared_ptr<PhysicalMemory> FindMulticast(CUmemGenericAllocationHandle handle) {
  std::shared_ptr<PhysicalMemory> found = FindMemory(handle);
  return found != nullptr && found->multicast != nullptr ? found : nullptr;
}

bool Fits(uint64_t offset, uint64_t bytes, uint64_t limit) {
  return Aligned(offset) && offset <= limit && bytes <= limit - offset;
}

CUresult Bind(PhysicalMemory& object, uint64_t offset, std::shared_ptr<PhysicalMemory> memory,
              uint64_t memory_offset, uint64_t bytes) {
  if (bytes == 0 || !Aligned(bytes) || memory == nullptr || memory->multicast != nullptr ||
      !Fits(offset, bytes, object.bytes) || !Fits(memory_offset, bytes, memory->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (object.prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
      memory->prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE)
    return CUDA_ERROR_INVALID_VALUE;
  Multicast& multicast = *object.multicast;
  multicast.AwaitTeam();
  const int device = memory->prop.location.id;
  std::lock_guard lock(multicast.mutex);
  if (std::find(multicast.team.begin(), multicast.team.end(), device) == multicast.team.end())
    return CUDA_ERROR_INVALID_DEVICE;
  for (const Multicast::Binding& bound : multicast.bindings)
    if (bound.device == device && bound.offset < offset + bytes &&
        offset < bound.offset + bound.bytes)
      return CUDA_ERROR_INVALID_VALUE;
  multicast.bindings.push_back({device, offset, bytes, std::move(memory), memory_offset});
  return CUDA_SUCCESS;
}

}  // namespace

void Multicast::AwaitTeam() {
  std::unique_lock lock(mutex);
  joined.wait(lock, [this] { return team.size() == team_size; });
}

}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* prop,
                                   CUmulticastGranularity_flags option) {
  if (const CUresult result = CheckInitialized()) return result;
  if (granularity == nullptr || (option != CU_MULTICAST_GRANULARITY_MINIMUM &&
                                 option != CU_MULTICAST_GRANULARITY_RECOMMENDED))
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckProp(prop)) return result;
  *granularity = kVmmGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                           const CUmulticastObjectProp* prop) {
  if (const CUresult result = CheckInitialized()) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckProp(prop)) return result;
  if (!Aligned(prop->size)) return CUDA_ERROR_INVALID_VALUE;
  auto object = std::make_shared<PhysicalMemory>();
  object->bytes = prop->size;
  object->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  object->prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(prop->handleTypes);
  object->multicast = std::make_unique<Multicast>();
  object->multicast->team_size = prop->numDevices;
  *handle = KeepMemory(std::move(object));
  return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice ordinal) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> object = FindMulticast(handle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Multicast& multicast = *object->multicast;
  std::lock_guard lock(multicast.mutex);
  if (multicast.team.size() == multicast.team_size ||
      std::find(multicast.team.begin(), multicast.team.end(), ordinal) != multicast.team.end())
    return CUDA_ERROR_INVALID_VALUE;
  if (multicast.team.empty()) object->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  multicast.team.push_back(ordinal);
  multicast.joined.notify_all();
  return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                            unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> object = FindMulticast(handle);
  if (object == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Bind(*object, offset, FindMemory(memory), memory_offset, bytes);
}

// Of cuMemCreate's memory, by where it is mapped.
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
                             CUdeviceptr address, size_t bytes, unsigned long long flags) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> object = FindMulticast(handle);
  if (object == nullptr || flags != 0 || !Aligned(address)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<PhysicalMemory> memory;
  uint64_t memory_offset = 0;
  RangeKind kind = RangeKind::kDevice;
  TheDriver().ranges.Update(address, [&](Range& range) {
    kind = range.kind;
    auto after = range.mappings.upper_bound(address);
    if (after == range.mappings.begin()) return;
    const Mapping& mapping = std::prev(after)->second;
    if (address - mapping.start >= mapping.bytes ||
        bytes > mapping.bytes - (address - mapping.start))
      return;
    memory = mapping.memory;
    memory_offset = mapping.offset + (address - mapping.start);
  });
  if (kind == RangeKind::kPool) {
    Log(LogLevel::kError,
        "cuMulticastBindAddr: memory of a pool cannot be bound, cuMemCreate's can");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return Bind(*object, offset, std::move(memory), memory_offset, bytes);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice ordinal, size_t offset,
                           size_t bytes) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<PhysicalMemory> object = FindMulticast(handle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<PhysicalMemory> unbound;  // let go after the lock
  Multicast& multicast = *object->multicast;
  std::lock_guard lock(multicast.mutex);
  const auto found = std::find_if(
      multicast.bindings.begin(), multicast.bindings.end(), [&](const Multicast::Binding& bound) {
        return bound.device == ordinal && bound.offset == offset && bound.bytes == bytes;
      });
  if (found == multicast.bindings.end()) return CUDA_ERROR_INVALID_VALUE;
  unbound = std::move(found->memory);
  multicast.bindings.erase(found);
  return CUDA_SUCCESS;
}

}  // extern "C"
