// SPDX-License-Identifier: Apache-2.0
// Allocations and events lent to other sessions of the vGPU: what a CUDA IPC handle stands for.
#include <cstring>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/memory/share_list.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

Status Serve_cuIpcGetMemHandle(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.parked = true;
  call.session.OnMemoryHelper([&session = call.session, header = call.header, address] {
    DeviceMemory::Export made;
    std::string detail;
    CUresult result = session.memory().ExportAllocation(address, &made, &detail);
    Builder out;
    out.Put<uint64_t>(made.token.high);
    out.Put<uint64_t>(made.token.low);
    out.Put<uint64_t>(made.span_bytes);
    out.Put<uint64_t>(made.offset);
    session.Answer(header, result,
                   result == CUDA_SUCCESS ? out.bytes() : std::span<const std::byte>(), detail);
  });
  return {};
}

Status Serve_cuIpcOpenMemHandle_v2(ServeCall& call) {
  ShareToken token;
  token.high = call.in.Get<uint64_t>();
  token.low = call.in.Get<uint64_t>();
  auto address = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  UserMemory& memory = call.session.user_memory();
  if (!call.in.Done() || !memory.MayMap(address, bytes)) return call.Malformed("body");
  call.parked = true;
  call.session.OnMemoryHelper(
      [&session = call.session, &memory, header = call.header, token, address, bytes] {
        std::string detail;
        int device = 0;
        CUresult result = memory.OpenIpc(token, address, bytes, &device, &detail);
        Builder out;
        out.Put<int32_t>(device);
        session.Answer(header, result,
                       result == CUDA_SUCCESS ? out.bytes() : std::span<const std::byte>(), detail);
      });
  return {};
}

// As cudaFree, it waits for the work that may use the memory.
Status Serve_cuIpcCloseMemHandle(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  if (!call.in.Done() || !call.session.user_memory().HasIpc(address)) return call.Malformed("body");
  call.parked = true;
  Session& session = call.session;
  auto close = [&session, address, header = call.header](CUresult result) {
    session.OnMemoryHelper([&session, address, header, result] {
      session.user_memory().CloseIpc(address);
      session.Answer(header, result, {});
    });
  };
  CUresult result = CUDA_SUCCESS;
  if (!session.streams().Fence(*call.context, close, &result)) close(result);
  return {};
}

Status Serve_cuIpcGetEventHandle(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto event = call.Resolve<CUevent>(HandleKind::kEvent, wire_event);
  if (!call.ready()) return call.RejectStatus();
  if (call.api.cuIpcGetEventHandle == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  CUipcEventHandle native{};
  call.result = call.api.cuIpcGetEventHandle(&native, event);
  if (call.result != CUDA_SUCCESS) return {};
  auto* state = static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event));
  if (state->handle == nullptr)
    state->handle = std::make_shared<EventHandle>(call.session.broker());
  call.parked = true;
  call.session.OnMemoryHelper(
      [&session = call.session, header = call.header, native, handle = state->handle] {
        Status shared;
        if (!handle->token) {
          std::vector<std::byte> bytes(sizeof(native));
          std::memcpy(bytes.data(), &native, sizeof(native));
          ShareToken made;
          shared = ShareBytes(handle->broker, bytes, &made);
          if (shared.ok()) handle->token = made;
        }
        const ShareToken token = handle->token.value_or(ShareToken{});
        Builder out;
        out.Put<uint64_t>(token.high);
        out.Put<uint64_t>(token.low);
        session.Answer(header, shared.ok() ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED,
                       shared.ok() ? out.bytes() : std::span<const std::byte>(), shared.message());
      });
  return {};
}

Status Serve_cuIpcOpenEventHandle(ServeCall& call) {
  auto wire_event = call.in.Get<uint64_t>();
  ShareToken token;
  token.high = call.in.Get<uint64_t>();
  token.low = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kEvent, wire_event);
  if (!call.ready()) return call.RejectStatus();
  std::vector<std::byte> bytes;
  CUipcEventHandle native{};
  Status read = ReadShared(call.session.broker(), token, &bytes);
  if (!read.ok() || bytes.size() != sizeof(native) || call.api.cuIpcOpenEventHandle == nullptr) {
    call.detail = read.message();
    call.result = CUDA_ERROR_INVALID_VALUE;
    return {};
  }
  std::memcpy(&native, bytes.data(), sizeof(native));
  CUevent event = nullptr;
  call.result = call.api.cuIpcOpenEventHandle(&event, native);
  if (call.result == CUDA_SUCCESS) {
    call.Insert(HandleKind::kEvent, wire_event, event);
    static_cast<EventState*>(call.ResolveExtra(HandleKind::kEvent, wire_event))->foreign = true;
  }
  return {};
}

}  // namespace farcall::server
