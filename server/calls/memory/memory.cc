// SPDX-License-Identifier: Apache-2.0
// Allocations. Inside credit they are bookkeeping; without a window the driver chooses the address.
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/device/current_context.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

Status Serve_cuMemAlloc_v2(ServeCall& call) {
  auto device = call.in.Get<int32_t>();
  auto address = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  DeviceMemory& memory = call.session.memory();
  if (memory.has_window()) {
    if (!memory.Allocate(device, address, bytes, call.context->slot))
      return call.Malformed("a range that is no unspent credit");
    return {};
  }
  uint64_t got = 0;
  call.result = memory.AllocateByDriver(device, bytes, call.context->slot, &got, &call.detail);
  if (call.result == CUDA_SUCCESS) call.out.Put<uint64_t>(got);
  return {};
}

Status Serve_cuMemFree_v2(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  auto epoch = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  if (epoch <= call.context->noted_epoch) return call.Malformed("an epoch that has been");
  Session& session = call.session;
  DeviceMemory::Freed freed;
  bool found = session.memory().Free(address, &freed);
  if (!found) call.result = CUDA_ERROR_INVALID_VALUE;
  std::function<void()> finish;
  if (found && freed.driver_address != 0) {
    finish = [&session, freed, native = call.context->native] {
      session.OnMemoryHelper([&session, freed, native] { session.FinishFree(native, freed); });
    };
  }
  session.contexts().NoteFree(*call.context, epoch, std::move(finish));
  return {};
}

Status Serve_cuMemGetInfo_v2(ServeCall& call) {
  auto device = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  // Behind the grants under way: what the ledger has charged, the client has been told of.
  // And behind modules that go: their memory is free for who asks after the unloading.
  call.parked = true;
  call.session.OnMemoryHelper([&session = call.session, device, header = call.header] {
    session.memory().AwaitLeaving();
    quota::Usage usage = session.memory().Query(device);
    Builder out;
    out.Put<uint64_t>(session.memory().AvailableBytes(device, usage));
    out.Put<uint64_t>(usage.quota_bytes);
    session.Answer(header, CUDA_SUCCESS, out.bytes());
  });
  return {};
}

Status Serve_cuCtxEnablePeerAccess(ServeCall& call) {
  auto peer = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.ResolveDevice(peer);
  if (!call.ready()) return call.RejectStatus();
  call.parked = true;  // behind the grants under way
  call.session.OnMemoryHelper(
      [&session = call.session, header = call.header, peer, device = call.context->device] {
        session.Answer(header, session.memory().AllowPeer(peer, device), {});
      });
  return {};
}

}  // namespace farcall::server
