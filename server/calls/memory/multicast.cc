// SPDX-License-Identifier: Apache-2.0
// Multicast objects. What is bound to one is the application's own memory, charged as such, and
// stays until it is unbound. Partner: client-shim/cuda/objects/multicast.cc.
#include <algorithm>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

PhysicalMemory* FindMulticast(ServeCall& call, uint64_t handle) {
  auto* object = call.Resolve<PhysicalMemory*>(HandleKind::kMemHandle, handle);
  if (call.ready() && object->multicast == nullptr)
    call.Reject("memory in a multicast object's place");
  return object;
}

// They stay while the helper is at it.
using Held = std::vector<PhysicalMemory*>;

template <typename Work>
void OnHelper(ServeCall& call, const Held& held, Work work) {
  for (PhysicalMemory* memory : held) ++*memory->mappings;
  call.parked = true;
  call.session.OnMemoryHelper([&session = call.session, header = call.header, held, work] {
    CUresult result = work(session.user_memory());
    for (PhysicalMemory* memory : held) --*memory->mappings;
    session.Answer(header, result, {});
  });
}

}  // namespace

bool Multicast::Add(const Binding& binding) {
  for (const Binding& bound : bindings)
    if (bound.device == binding.device && bound.offset < binding.offset + binding.bytes &&
        binding.offset < bound.offset + bound.bytes)
      return false;
  bindings.push_back(binding);
  ++*binding.memory->mappings;
  return true;
}

CUresult UserMemory::CreateMulticast(uint64_t bytes, uint64_t devices,
                                     std::unique_ptr<PhysicalMemory>* object) {
  if (api_.cuMulticastCreate == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_unique<PhysicalMemory>();
  made->bytes = bytes;
  made->device = -1;
  made->multicast = std::make_unique<Multicast>();
  made->multicast->team_size = devices;
  CUmulticastObjectProp properties{};
  properties.numDevices = static_cast<unsigned>(devices);
  properties.size = bytes;
  CUresult result = api_.cuMulticastCreate(&made->native, &properties);
  if (result == CUDA_SUCCESS) *object = std::move(made);
  return result;
}

CUresult UserMemory::Join(PhysicalMemory& object, int device) {
  CUresult result = api_.cuMulticastAddDevice(object.native, device);
  if (result == CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    object.multicast->team.push_back(device);
  }
  return result;
}

bool UserMemory::Whole(const PhysicalMemory& object) const {
  std::lock_guard lock(mutex_);
  return object.multicast->whole();
}

CUresult UserMemory::Bind(PhysicalMemory& object, uint64_t offset, PhysicalMemory& memory,
                          uint64_t memory_offset, uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (!object.multicast->Add({memory.device, offset, bytes, &memory}))
      return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result =
      api_.cuMulticastBindMem(object.native, offset, memory.native, memory_offset, bytes, 0);
  if (result != CUDA_SUCCESS) {
    std::lock_guard lock(mutex_);
    object.multicast->Drop(memory.device, offset, bytes);
  }
  return result;
}

bool Multicast::Drop(int device, uint64_t offset, uint64_t bytes) {
  auto bound = std::find_if(bindings.begin(), bindings.end(), [&](const Binding& binding) {
    return binding.device == device && binding.offset == offset && binding.bytes == bytes;
  });
  if (bound == bindings.end()) return false;
  --*bound->memory->mappings;
  bindings.erase(bound);
  return true;
}

bool UserMemory::Unbind(PhysicalMemory& object, int device, uint64_t offset, uint64_t bytes,
                        CUresult* result) {
  std::lock_guard lock(mutex_);
  // First in the books, which refuse what was never bound; a driver that cannot unbind keeps it.
  std::vector<Multicast::Binding>& bindings = object.multicast->bindings;
  bool known = std::any_of(bindings.begin(), bindings.end(), [&](const auto& binding) {
    return binding.device == device && binding.offset == offset && binding.bytes == bytes;
  });
  if (!known) return false;
  *result = api_.cuMulticastUnbind(object.native, device, offset, bytes);
  if (*result == CUDA_SUCCESS) object.multicast->Drop(device, offset, bytes);
  return true;
}

void UserMemory::ReleaseMulticast(PhysicalMemory& object) {
  api_.cuMemRelease(object.native);
  std::lock_guard lock(mutex_);
  for (const Multicast::Binding& binding : object.multicast->bindings) --*binding.memory->mappings;
}

Status Serve_cuMulticastCreate(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto devices = call.in.Get<uint64_t>();
  if (!call.in.Done() || bytes == 0 || bytes % kChunkGranularityBytes != 0 || devices == 0 ||
      devices > UINT32_MAX)
    return call.Malformed("body");
  call.CheckNew(HandleKind::kMemHandle, handle);
  if (!call.ready()) return call.RejectStatus();
  call.parked = true;
  call.session.OnMemoryHelper(
      [&session = call.session, header = call.header, handle, bytes, devices] {
        std::unique_ptr<PhysicalMemory> object;
        CUresult result = session.user_memory().CreateMulticast(bytes, devices, &object);
        if (result == CUDA_SUCCESS) KeepMemory(session, handle, std::move(object));
        session.Answer(header, result, {});
      });
  return {};
}

Status Serve_cuMulticastAddDevice(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  auto device = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* object = FindMulticast(call, handle);
  CUdevice native = call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  OnHelper(call, {object},
           [object, native](UserMemory& memory) { return memory.Join(*object, native); });
  return {};
}

Status Serve_cuMulticastBindMem(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  auto memory_handle = call.in.Get<uint64_t>();
  auto memory_offset = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* object = FindMulticast(call, handle);
  auto* memory = call.Resolve<PhysicalMemory*>(HandleKind::kMemHandle, memory_handle);
  if (!call.ready()) return call.RejectStatus();
  auto fits = [&](uint64_t at, const PhysicalMemory& of) {
    return at % kChunkGranularityBytes == 0 && at <= of.bytes && bytes <= of.bytes - at;
  };
  if (bytes == 0 || bytes % kChunkGranularityBytes != 0 || memory->multicast != nullptr ||
      !fits(offset, *object) || !fits(memory_offset, *memory) ||
      !call.session.user_memory().Whole(*object))
    return call.Malformed("a binding that cannot be");
  OnHelper(call, {object, memory}, [=](UserMemory& user) {
    return user.Bind(*object, offset, *memory, memory_offset, bytes);
  });
  return {};
}

Status Serve_cuMulticastUnbind(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto device = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* object = FindMulticast(call, handle);
  CUdevice native = call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  if (!call.session.user_memory().Unbind(*object, native, offset, bytes, &call.result))
    return call.Malformed("unbinding of what is not bound");
  return {};
}

}  // namespace farcall::server
