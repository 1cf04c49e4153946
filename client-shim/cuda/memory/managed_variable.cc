// SPDX-License-Identifier: Apache-2.0
// __managed__ variables. The driver there has them where it likes; the program gets memory of the
// host window that is mirrored with theirs, and kernels are given the driver's address for it.
#include <mutex>
#include <string>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/cuda/state/managed.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/module.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// The driver's variable; with `address`, mirrored there from now on.
CUresult Ask(uint64_t library, const char* name, uint64_t address, uint64_t room_bytes,
             Symbol* variable) {
  Builder body;
  body.Put<uint64_t>(library);
  body.PutString(name);
  body.Put<uint64_t>(address);
  body.Put<uint64_t>(room_bytes);
  Reply reply;
  CUresult status = RoundTrip(CallId::cuLibraryGetManaged, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  variable->address = outputs.Get<uint64_t>();
  variable->bytes = outputs.Get<uint64_t>();
  return outputs.Done() && variable->bytes != 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

void Note(uint64_t address, uint64_t bytes, MemoryKind kind, uint64_t library) {
  Allocation allocation;
  allocation.base = address;
  allocation.bytes = bytes;
  allocation.kind = kind;
  allocation.id = NewBufferId();
  allocation.owner = library;
  if (FindDevice(0) != nullptr) allocation.server_device = FindDevice(0)->server_index;
  Memory().Insert(allocation);
}

CUresult Show(Module* library, const char* name, Symbol* shown) {
  HostWindow& window = HostAddresses();
  if (!ServerMirrors() || !window.available()) return NotSupported(CallId::cuLibraryGetManaged);
  Symbol there;
  CUresult status = Ask(library->handle, name, 0, 0, &there);
  if (status != CUDA_SUCCESS) return status;
  uint64_t address = window.Take(there.bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t room_bytes = AlignUp(there.bytes, kHostPageBytes);
  status = HostWindow::Back(address, there.bytes)
               ? Ask(library->handle, name, address, room_bytes, &there)
               : CUDA_ERROR_OUT_OF_MEMORY;
  if (status == CUDA_SUCCESS) status = AdoptMirror(address, there.bytes, there.address);
  if (status != CUDA_SUCCESS) {
    window.Give(address, there.bytes);
    return status;
  }
  *shown = {address, there.bytes};
  Note(address, there.bytes, MemoryKind::kManaged, library->handle);
  Note(there.address, there.bytes, MemoryKind::kDevice, library->handle);
  AddManagedRange(address, there.bytes);
  return CUDA_SUCCESS;
}

}  // namespace

// cudart asks while it loads a program's code, before there is a context.
CUresult Call_cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library,
                                  const char* name) {
  Module* found = FindLibrary(library);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(found->mutex);
  Symbol shown;
  if (auto known = found->managed.find(std::string_view(name)); known != found->managed.end()) {
    shown = known->second;
  } else {
    CUresult status = Show(found, name, &shown);
    if (status != CUDA_SUCCESS) return status;
    found->managed[name] = shown;
  }
  if (dptr != nullptr) *dptr = shown.address;
  if (bytes != nullptr) *bytes = shown.bytes;
  return CUDA_SUCCESS;
}

void DropManagedVariables(Module* module) {
  std::lock_guard lock(module->mutex);
  for (const auto& [name, variable] : module->managed) {
    Allocation removed;
    Memory().Remove(variable.address, &removed);
    DropManagedRange(variable.address);
    EndMirror(variable.address);
    HostAddresses().Give(variable.address, variable.bytes);
  }
  module->managed.clear();
}

}  // namespace farcall::client
