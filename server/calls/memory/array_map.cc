// SPDX-License-Identifier: Apache-2.0
// Memory mapped to arrays that were made without. The partner is
// client-shim/cuda/memory/array_map.cc.
#include <vector>

#include "generated/server/driver_api.h"
#include "server/state/objects/array_state.h"
#include "server/state/objects/context_state.h"
#include "server/state/serve.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr size_t kLeastBytes = 8 + 8 + 16;  // of an entry

struct Mapping {
  ArrayState* state = nullptr;
  PhysicalMemory* memory = nullptr;  // null: unmapped
};

void ReadSubresource(Reader& in, CUarrayMapInfo* info) {
  if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    info->subresource.miptail.layer = in.Get<uint32_t>();
    info->subresource.miptail.offset = in.Get<uint64_t>();
    info->subresource.miptail.size = in.Get<uint64_t>();
    return;
  }
  auto& level = info->subresource.sparseLevel;
  for (unsigned* value :
       {&level.level, &level.layer, &level.offsetX, &level.offsetY, &level.offsetZ,
        &level.extentWidth, &level.extentHeight, &level.extentDepth})
    *value = in.Get<uint32_t>();
}

// False: malformed. Handles that lie or died are in call.ready().
bool ReadMapping(ServeCall& call, CUarrayMapInfo* info, Mapping* mapping) {
  auto kind = call.in.Get<uint8_t>();
  auto wire = call.in.Get<uint64_t>();
  auto subresource = call.in.Get<uint8_t>();
  info->subresourceType = static_cast<CUarraySparseSubresourceType>(subresource);
  ReadSubresource(call.in, info);
  auto wire_memory = call.in.Get<uint64_t>();
  auto offset = call.in.Get<uint64_t>();
  if (!call.in.ok() || kind > 1 || subresource > CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
    return false;
  HandleKind handle_kind = kind == 1 ? HandleKind::kMipmappedArray : HandleKind::kArray;
  if (kind == 1) {
    info->resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    info->resource.mipmap = call.Resolve<CUmipmappedArray>(handle_kind, wire);
  } else {
    info->resourceType = CU_RESOURCE_TYPE_ARRAY;
    info->resource.array = call.Resolve<CUarray>(handle_kind, wire);
  }
  if (!call.ready()) return true;
  mapping->state = static_cast<ArrayState*>(call.ResolveExtra(handle_kind, wire));
  info->deviceBitMask = 1u << call.context->device;
  info->memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  info->memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  if (wire_memory == 0) return true;
  mapping->memory = call.Resolve<PhysicalMemory*>(HandleKind::kMemHandle, wire_memory);
  if (!call.ready()) return true;
  if (offset >= mapping->memory->bytes || mapping->memory->device != call.context->device)
    return false;
  info->memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  info->memHandle.memHandle = mapping->memory->native;
  info->offset = offset;
  return true;
}

}  // namespace

Status Serve_cuMemMapArrayAsync(ServeCall& call) {
  CUstream stream = call.ResolveStream(call.in.Get<uint64_t>());
  size_t count = call.in.GetCount(kLeastBytes);
  std::vector<CUarrayMapInfo> infos(count);
  std::vector<Mapping> mappings(count);
  for (size_t i = 0; i < count; ++i) {
    if (!ReadMapping(call, &infos[i], &mappings[i])) return call.Malformed("mapping of an array");
    if (!call.ready()) return call.RejectStatus();
    if (mappings[i].state->parent != 0) {
      call.result = CUDA_ERROR_INVALID_VALUE;
      return {};
    }
  }
  if (!call.in.Done() || count == 0) return call.Malformed("body");
  if (!call.ready()) return call.RejectStatus();
  call.result =
      call.api.cuMemMapArrayAsync == nullptr
          ? CUDA_ERROR_NOT_SUPPORTED
          : call.api.cuMemMapArrayAsync(infos.data(), static_cast<unsigned>(count), stream);
  // Some of a list that failed may have been mapped.
  for (const Mapping& mapping : mappings)
    if (mapping.memory != nullptr && mapping.state->holds.count(mapping.memory) == 0)
      mapping.state->holds[mapping.memory] = std::make_unique<MemoryHold>(mapping.memory->mappings);
  return {};
}

}  // namespace farcall::server
