// SPDX-License-Identifier: Apache-2.0
// Contexts come to life on the helper; they end once their work is done.
#include "server/calls/context.h"

#include <utility>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/device/current_context.h"
#include "server/memory/library_memory.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// A client chooses how its contexts wait and map; core dumps on the server are not its to ask for.
constexpr unsigned kContextFlags =
    CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS;

// Everything that names the context dies before the driver's objects do.
void KillHandles(Session& session, ContextState& context) {
  session.table(HandleKind::kContext).Kill(context.slot, context.generation);
  session.objects().ForgetContext(context.slot);
  std::vector<std::pair<HandleKind, uint64_t>> owned;
  {
    std::lock_guard lock(context.owned_mutex);
    owned.swap(context.owned);
  }
  for (auto [kind, wire] : owned) {
    HandleParts parts = SplitHandle(wire);
    HandleTable::Found found = session.table(kind).Find(parts.index, parts.generation);
    if (found.state == HandleTable::State::kLive && found.generation_matches) {
      session.table(kind).Kill(parts.index, parts.generation);
      session.retained().Retire(kind, found.extra);
    }
  }
}

// What libraries took in it goes with it.
CUresult EndWithLibraries(CUcontext native, const std::function<CUresult()>& end) {
  LibraryMemory* memory = LibraryMemory::Watching();
  const auto taken =
      memory == nullptr ? std::vector<LibraryMemory::Taken>() : memory->Leave(native);
  const CUresult result = end();
  if (memory != nullptr) memory->Refund(taken);
  return result;
}

// Behind what the other helpers do in a context: library calls, and frees that wait.
void EndBehindHelpers(Session& session, const std::function<void()>& end) {
  session.BehindLibraries(
      [&session, end] { session.OnMemoryHelper([&session, end] { session.OnHelper(end); }); });
}

}  // namespace

ContextState& ComeToLife(Session& session, HandleParts parts, CUcontext native, int device,
                         bool is_primary) {
  auto slot = static_cast<uint16_t>(parts.index);
  ContextState& context = session.contexts().Make(slot);
  context.generation = parts.generation;
  context.device = device;
  context.is_primary = is_primary;
  context.native = native;
  context.green = nullptr;
  CurrentContext::Forget();
  session.table(HandleKind::kContext)
      .Set(parts.index, parts.generation, HandleTable::State::kLive, native);
  session.GrantFirstCredit(device);
  return context;
}

void EndContext(ServeCall& call, ContextState* context, std::function<CUresult()> end) {
  Session& session = call.session;
  session.contexts().MakeCurrent(context);
  auto destroy = [&session, &api = call.api, context, header = call.header,
                  end = std::move(end)](CUresult) {
    auto now = [&session, &api, context, header, end] {
      session.completion().Drain(context->native);
      CurrentContext::Set(api, context->native);
      session.ForgetContext(context->native);
      session.mirrors().Abandon(0);  // variables of the context's modules go with it
      CUresult result = EndWithLibraries(context->native, end);
      CurrentContext::Forget();
      session.memory().FreeContext(context->slot);
      session.output().Drain();  // the driver empties the context's printf buffer with it
      session.Answer(header, result, {});
    };
    EndBehindHelpers(session, now);
  };
  session.contexts().FenceFrees(*context);  // at the frame's end there is no context to fence in
  CUresult idle = CUDA_SUCCESS;
  bool waits = session.streams().Fence(*context, destroy, &idle);
  KillHandles(session, *context);
  session.contexts().MakeCurrent(nullptr);
  call.parked = true;
  if (!waits) destroy(idle);
}

Status Serve_cuDevicePrimaryCtxRetain(ServeCall& call) {
  auto device = call.in.Get<int32_t>();
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  HandleParts parts = SplitHandle(wire);
  if (parts.kind != HandleKind::kContext || !HasHandleForm(wire) || parts.index == 0 ||
      parts.index > UINT16_MAX)
    return call.Malformed("a context handle of another kind");
  call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  HandleTable& contexts = session.table(HandleKind::kContext);
  if (session.helper_busy()) {  // a reset may be under way
    call.stalled = true;
    return {};
  }
  HandleTable::Found found = contexts.Find(parts.index, parts.generation);
  if (found.state == HandleTable::State::kLive && found.generation_matches) return {};
  // After a reset the client retains under the handle it had.
  bool again = found.generation_matches && found.state != HandleTable::State::kPending;
  if (!again && !contexts.MayCreate(parts.index, parts.generation))
    return call.Malformed("a context slot that is taken");
  contexts.Set(parts.index, parts.generation, HandleTable::State::kPending, nullptr);
  call.parked = true;
  session.OnHelper([&session, &api = call.api, header = call.header, parts, device] {
    CUcontext native = nullptr;
    CUresult result = api.cuDevicePrimaryCtxRetain(&native, device);
    if (result == CUDA_SUCCESS)
      ComeToLife(session, parts, native, device, true);
    else
      session.table(HandleKind::kContext)
          .Set(parts.index, parts.generation, HandleTable::State::kFailed, nullptr);
    session.Answer(header, result, {}, "cuDevicePrimaryCtxRetain failed on the server");
  });
  return {};
}

Status Serve_cuCtxCreate_v4(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  auto device = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kContext, wire);
  call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  CUcontext native = nullptr;
  flags &= kContextFlags;
  if (call.api.cuCtxCreate_v4 != nullptr)
    call.result = call.api.cuCtxCreate_v4(&native, nullptr, flags, device);
  else if (call.api.cuCtxCreate_v2 != nullptr)
    call.result = call.api.cuCtxCreate_v2(&native, flags, device);
  else
    call.result = CUDA_ERROR_NOT_SUPPORTED;
  HandleParts parts = SplitHandle(wire);
  if (call.result != CUDA_SUCCESS) {
    call.session.table(HandleKind::kContext)
        .Set(parts.index, parts.generation, HandleTable::State::kFailed, nullptr);
    return {};
  }
  CUcontext popped = nullptr;
  call.api.cuCtxPopCurrent_v2(&popped);
  CurrentContext::Forget();
  ComeToLife(call.session, parts, native, device, false);
  return {};
}

Status Serve_cuCtxDestroy_v2(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.Resolve<CUcontext>(HandleKind::kContext, wire);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  ContextState* context = session.contexts().at(static_cast<uint16_t>(SplitHandle(wire).index));
  if (context->is_primary || context->green != nullptr) {
    call.result = CUDA_ERROR_INVALID_CONTEXT;
    return {};
  }
  EndContext(call, context,
             [&api = call.api, native = context->native] { return api.cuCtxDestroy_v2(native); });
  return {};
}

Status Serve_cuDevicePrimaryCtxReset_v2(ServeCall& call) {
  auto device = call.in.Get<int32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.ResolveDevice(device);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  if (session.helper_busy()) {  // its context may be in the making
    call.stalled = true;
    return {};
  }
  ContextState* context = nullptr;
  session.table(HandleKind::kContext).ForEachLive([&](uint32_t index, uint16_t, void*, void*) {
    ContextState* candidate = session.contexts().at(static_cast<uint16_t>(index));
    if (candidate != nullptr && candidate->is_primary && candidate->device == device)
      context = candidate;
  });
  auto now = [&session, &api = call.api, device, context, header = call.header] {
    if (context != nullptr) {
      CurrentContext::Set(api, context->native);
      api.cuCtxSynchronize();
      session.completion().Drain(context->native);
      session.ForgetContext(context->native);
    }
    session.mirrors().Abandon(0);
    CurrentContext::Set(api, nullptr);
    CUresult result = EndWithLibraries(context == nullptr ? nullptr : context->native,
                                       [&] { return api.cuDevicePrimaryCtxReset_v2(device); });
    CurrentContext::Forget();
    if (context != nullptr) {
      session.memory().FreeContext(context->slot);
    }
    session.output().Drain();
    session.Answer(header, result, {});
  };
  // What it ends is gone for the log from here on; it ends behind the slow calls that have it.
  if (context != nullptr) {
    KillHandles(session, *context);
    session.contexts().MakeCurrent(nullptr);
  }
  call.parked = true;
  EndBehindHelpers(session, now);
  return {};
}

}  // namespace farcall::server
