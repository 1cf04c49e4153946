// SPDX-License-Identifier: Apache-2.0
// Physical memory of the application's own and where it maps it. What may wait for the supervisor
// runs on the memory helper.
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "proto/cuda/memory_flags.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

using Made = std::unique_ptr<PhysicalMemory>;

PhysicalMemory* Find(ServeCall& call, uint64_t handle) {
  return call.Resolve<PhysicalMemory*>(HandleKind::kMemHandle, handle);
}

}  // namespace

void KeepMemory(Session& session, uint64_t handle, Made memory) {
  HandleParts parts = SplitHandle(handle);
  PhysicalMemory* kept = memory.release();
  session.table(HandleKind::kMemHandle)
      .Set(parts.index, parts.generation, HandleTable::State::kLive, kept, kept);
}

Status Serve_cuMemCreate(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto device = call.in.Get<int32_t>();
  auto flags = call.in.Get<uint32_t>();
  if (!call.in.Done() || bytes == 0 || bytes % kChunkGranularityBytes != 0 ||
      (flags & ~(kMemoryExportable | kMemoryUsages << kMemoryUsageShift)) != 0)
    return call.Malformed("body");
  call.ResolveDevice(device);
  call.CheckNew(HandleKind::kMemHandle, handle);
  if (!call.ready()) return call.RejectStatus();
  if (!call.session.user_memory().has_window()) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  call.parked = true;
  call.session.OnMemoryHelper(
      [&session = call.session, header = call.header, handle, bytes, device, flags] {
        Made memory;
        std::string detail;
        CUresult result = session.user_memory().Create(device, bytes, flags, &memory, &detail);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && session.MakeRoom(device, bytes))
          result = session.user_memory().Create(device, bytes, flags, &memory, &detail);
        if (result == CUDA_SUCCESS) KeepMemory(session, handle, std::move(memory));
        session.Answer(header, result, {}, detail);
      });
  return {};
}

Status Serve_cuMemRelease(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* memory = Find(call, handle);
  if (!call.ready()) return call.RejectStatus();
  if (*memory->mappings != 0) return call.Malformed("memory that is still mapped");
  call.session.user_memory().Release(*memory);
  call.Erase(HandleKind::kMemHandle, handle);
  return {};
}

Status Serve_cuMemMap(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  auto handle = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* memory = Find(call, handle);
  if (!call.ready()) return call.RejectStatus();
  if (memory->multicast != nullptr && !call.session.user_memory().Whole(*memory))
    return call.Malformed("a multicast object without all of its devices");
  if (offset > memory->bytes || bytes > memory->bytes - offset ||
      offset % kChunkGranularityBytes != 0 || !call.session.user_memory().MayMap(address, bytes))
    return call.Malformed("a range that cannot be mapped");
  call.result = call.session.user_memory().Map(address, bytes, offset, *memory);
  return {};
}

Status Serve_cuMemUnmap(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  if (!call.session.user_memory().Unmap(address, bytes, &call.result)) {
    // A mapping that failed was told of; what is behind it in the log is no lie.
    call.result = CUDA_ERROR_INVALID_VALUE;
  }
  return {};
}

Status Serve_cuMemSetAccess(ServeCall& call) {
  auto address = call.in.Get<uint64_t>();
  auto bytes = call.in.Get<uint64_t>();
  auto device = call.in.Get<int32_t>();
  auto flags = call.in.Get<uint32_t>();
  if (!call.in.Done() ||
      (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
       flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
    return call.Malformed("body");
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, call.ResolveDevice(device)};
  access.flags = static_cast<CUmemAccess_flags>(flags);
  if (!call.ready()) return call.RejectStatus();
  if (!call.session.user_memory().SetAccess(address, bytes, access, &call.result))
    call.result = CUDA_ERROR_INVALID_VALUE;
  return {};
}

Status Serve_cuMemExportToShareableHandle(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  PhysicalMemory* memory = Find(call, handle);
  if (!call.ready()) return call.RejectStatus();
  call.parked = true;
  // The client waits for the answer, so a release of this memory comes behind it.
  ++*memory->mappings;
  call.session.OnMemoryHelper([&session = call.session, header = call.header, memory] {
    ShareToken token;
    std::string detail;
    CUresult result = session.user_memory().Export(*memory, &token, &detail);
    Builder out;
    out.Put<uint64_t>(token.high);
    out.Put<uint64_t>(token.low);
    --*memory->mappings;
    session.Answer(header, result,
                   result == CUDA_SUCCESS ? out.bytes() : std::span<const std::byte>(), detail);
  });
  return {};
}

Status Serve_cuMemImportFromShareableHandle(ServeCall& call) {
  auto handle = call.in.Get<uint64_t>();
  ShareToken token;
  token.high = call.in.Get<uint64_t>();
  token.low = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kMemHandle, handle);
  if (!call.ready()) return call.RejectStatus();
  if (!call.session.user_memory().has_window()) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  call.parked = true;
  call.session.OnMemoryHelper([&session = call.session, header = call.header, handle, token] {
    Made memory;
    std::string detail;
    Builder out;
    CUresult result = session.user_memory().Import(token, &memory, &detail);
    if (result == CUDA_SUCCESS) {
      out.Put<int32_t>(memory->device);
      out.Put<uint64_t>(memory->bytes);
      KeepMemory(session, handle, std::move(memory));
    }
    session.Answer(header, result, out.bytes(), detail);
  });
  return {};
}

}  // namespace farcall::server
