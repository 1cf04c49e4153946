// SPDX-License-Identifier: Apache-2.0
// __managed__ variables of a library: the driver's own memory, which the host may touch. Partner:
// client-shim/cuda/memory/managed_variable.cc.
#include <string>

#include "generated/server/driver_api.h"
#include "server/state/objects/context_state.h"
#include "server/state/serve.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// Else the host may not touch it while a kernel runs, and looking for changes does.
bool MayTouch(const DriverApi& api) {
  int concurrent = 0;
  return api.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0) ==
             CUDA_SUCCESS &&
         concurrent != 0;
}

}  // namespace

// {u64 library, string name, u64 address or 0, u64 bytes}: asked without an address first, to learn
// the size; then with one of the client's that has room.
Status Serve_cuLibraryGetManaged(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  std::string name(call.in.GetString());
  auto address = call.in.Get<uint64_t>();
  auto room_bytes = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto library = call.Resolve<CUlibrary>(HandleKind::kLibrary, wire);
  if (!call.ready()) return call.RejectStatus();
  if (call.api.cuLibraryGetManaged == nullptr || !MayTouch(call.api) ||
      !call.session.options().client_takes_mirrors) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  CUdeviceptr memory = 0;
  size_t bytes = 0;
  call.result = call.api.cuLibraryGetManaged(&memory, &bytes, library, name.c_str());
  if (call.result == CUDA_SUCCESS && address != 0) {
    call.session.memory().AddForeign(memory, bytes, wire);
    call.result = call.session.mirrors().Adopt(address, room_bytes, memory, bytes, wire);
  }
  if (call.result == CUDA_SUCCESS) {
    call.out.Put<uint64_t>(memory);
    call.out.Put<uint64_t>(bytes);
  }
  return {};
}

}  // namespace farcall::server
