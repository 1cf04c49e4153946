// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmaps. Their memory is charged before the driver makes them: exactly, by the
// requirements of a twin without memory, or else by a bound no layout exceeds. The partner is
// client-shim/cuda/objects/array.cc.
#include <algorithm>
#include <bit>
#include <vector>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/device/current_context.h"
#include "server/state/objects/array_state.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr uint64_t kPageBytes = 64u << 10;
constexpr uint64_t kLargestExtent = 1u << 20;  // no architecture has longer arrays
constexpr unsigned kMaxLevels = 32;

CUDA_ARRAY3D_DESCRIPTOR GetShape(Reader& in) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = in.Get<uint64_t>();
  shape.Height = in.Get<uint64_t>();
  shape.Depth = in.Get<uint64_t>();
  shape.Format = static_cast<CUarray_format>(in.Get<uint32_t>());
  shape.NumChannels = in.Get<uint32_t>();
  shape.Flags = in.Get<uint32_t>();
  return shape;
}

// The shape as the driver has it: it fills in what a program left open.
void PutShape(ServeCall& call, CUarray array, const CUDA_ARRAY3D_DESCRIPTOR& asked) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (call.api.cuArray3DGetDescriptor_v2(&shape, array) != CUDA_SUCCESS) shape = asked;
  call.out.Put<uint64_t>(shape.Width);
  call.out.Put<uint64_t>(shape.Height);
  call.out.Put<uint64_t>(shape.Depth);
  call.out.Put<uint32_t>(shape.Format);
  call.out.Put<uint32_t>(shape.NumChannels);
  call.out.Put<uint32_t>(shape.Flags);
}

uint64_t RoundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Blocks are at most 512 bytes wide, 256 rows high and 32 slices deep, smaller where the array is;
// 16 bytes an element.
uint64_t LevelBound(uint64_t width, uint64_t height, uint64_t depth, bool layered) {
  height = std::max<uint64_t>(height, 1);
  depth = std::max<uint64_t>(depth, 1);
  uint64_t rows = RoundUp(height, std::clamp<uint64_t>(std::bit_ceil(height), 8, 256));
  uint64_t slices = layered ? depth : RoundUp(depth, std::min<uint64_t>(std::bit_ceil(depth), 32));
  return RoundUp(RoundUp(width * 16, 512) * rows * slices, kPageBytes);
}

uint64_t Bound(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  bool layered = (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    bytes += LevelBound(std::max<uint64_t>(shape.Width >> level, 1), shape.Height >> level,
                        layered ? shape.Depth : shape.Depth >> level, layered);
  }
  return bytes;
}

// Bytes of the memory it will take: 0 if it takes none until it is mapped.
uint64_t MemoryOf(ServeCall& call, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels,
                  bool is_mipmap) {
  constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
  const DriverApi& api = call.api;
  if ((shape.Flags & kWithoutMemory) != 0) return 0;
  CUDA_ARRAY3D_DESCRIPTOR twin_shape = shape;
  twin_shape.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs{};
  CUresult asked = CUDA_ERROR_NOT_SUPPORTED;
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  if (!is_mipmap && api.cuArrayGetMemoryRequirements != nullptr &&
      api.cuArray3DCreate_v2(&array, &twin_shape) == CUDA_SUCCESS) {
    asked = api.cuArrayGetMemoryRequirements(&needs, array, call.context->device);
    api.cuArrayDestroy(array);
  }
  if (is_mipmap && api.cuMipmappedArrayGetMemoryRequirements != nullptr &&
      api.cuMipmappedArrayCreate(&mipmap, &twin_shape, levels) == CUDA_SUCCESS) {
    asked = api.cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, call.context->device);
    api.cuMipmappedArrayDestroy(mipmap);
  }
  return asked == CUDA_SUCCESS && needs.size != 0 ? needs.size : Bound(shape, levels);
}

bool Plausible(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  return shape.Width != 0 && shape.Width <= kLargestExtent && shape.Height <= kLargestExtent &&
         shape.Depth <= kLargestExtent && levels != 0 && levels <= kMaxLevels &&
         shape.Width * std::max<uint64_t>(shape.Height, 1) <= uint64_t{1} << 40;
}

void InsertArray(ServeCall& call, HandleKind kind, uint64_t wire, void* native, uint64_t parent) {
  call.Insert(kind, wire, native);
  HandleParts parts = SplitHandle(wire);
  auto* state =
      static_cast<ArrayState*>(call.session.table(kind).Find(parts.index, parts.generation).extra);
  if (state != nullptr) state->parent = parent;
}

// Charges, then lets `create` make it.
template <typename Create>
void Make(ServeCall& call, HandleKind kind, uint64_t wire, const CUDA_ARRAY3D_DESCRIPTOR& shape,
          unsigned levels, Create create) {
  if (!Plausible(shape, levels)) {
    call.result = CUDA_ERROR_INVALID_VALUE;
    return;
  }
  DeviceMemory& memory = call.session.memory();
  uint64_t bytes = MemoryOf(call, shape, levels, kind == HandleKind::kMipmappedArray);
  call.result =
      memory.ChargeObject(call.context->device, bytes, call.context->slot, wire, &call.detail);
  if (call.result != CUDA_SUCCESS) return;
  void* native = nullptr;
  call.result = create(&native);
  if (call.result == CUDA_SUCCESS)
    InsertArray(call, kind, wire, native, 0);
  else
    memory.RefundObject(wire);
}

// Levels and planes go with the whole.
void KillParts(Session& session, uint64_t parent) {
  HandleTable& arrays = session.table(HandleKind::kArray);
  std::vector<HandleParts> gone;
  arrays.ForEachLive([&](uint32_t index, uint16_t generation, void*, void* extra) {
    auto* state = static_cast<ArrayState*>(extra);
    if (state != nullptr && state->parent == parent)
      gone.push_back({HandleKind::kArray, index, generation});
  });
  for (HandleParts parts : gone) {
    auto* state = static_cast<ArrayState*>(arrays.Find(parts.index, parts.generation).extra);
    arrays.Kill(parts.index, parts.generation);
    delete state;
  }
}

// Work that is under way may still use it: the helper ends it once that is done.
template <typename Native>
Status Destroy(ServeCall& call, HandleKind kind, CUresult (*destroy)(Native)) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<Native>(kind, wire);
  if (!call.ready()) return call.RejectStatus();
  auto* state = static_cast<ArrayState*>(call.ResolveExtra(kind, wire));
  if (state->parent != 0) {
    call.result = CUDA_ERROR_INVALID_HANDLE;
    return {};
  }
  Session& session = call.session;
  auto holds = std::make_shared<MemoryHolds>(std::move(state->holds));
  KillParts(session, wire);
  call.Erase(kind, wire);
  auto end = [&session, &api = call.api, native, destroy, wire, context = call.context->native,
              header = call.header, holds](CUresult) {
    session.OnHelper([&session, &api, native, destroy, wire, context, header, holds] {
      CurrentContext::Set(api, context);
      CUresult result = destroy(native);
      session.memory().RefundObject(wire);
      holds->clear();  // before the client may release what it was mapped to
      session.Answer(header, result, {}, "an array could not be destroyed");
    });
  };
  CUresult idle = CUDA_SUCCESS;
  call.parked = true;
  if (!session.streams().Fence(*call.context, end, &idle)) end(idle);
  return {};
}

template <typename Parent>
Status GetPart(ServeCall& call, HandleKind kind, CUresult (*get)(CUarray*, Parent, unsigned)) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_parent = call.in.Get<uint64_t>();
  auto index = call.in.Get<uint32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto parent = call.Resolve<Parent>(kind, wire_parent);
  call.CheckNew(HandleKind::kArray, wire);
  if (!call.ready()) return call.RejectStatus();
  CUarray part = nullptr;
  call.result = get == nullptr ? CUDA_ERROR_NOT_SUPPORTED : get(&part, parent, index);
  if (call.result == CUDA_SUCCESS) {
    InsertArray(call, HandleKind::kArray, wire, part, wire_parent);
    PutShape(call, part, {});
  }
  return {};
}

template <typename Native>
Status GetSparse(ServeCall& call, HandleKind kind,
                 CUresult (*get)(CUDA_ARRAY_SPARSE_PROPERTIES*, Native)) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<Native>(kind, wire);
  if (!call.ready()) return call.RejectStatus();
  CUDA_ARRAY_SPARSE_PROPERTIES found{};
  call.result = get == nullptr ? CUDA_ERROR_NOT_SUPPORTED : get(&found, native);
  if (call.result == CUDA_SUCCESS) {
    call.out.Put<uint32_t>(found.tileExtent.width);
    call.out.Put<uint32_t>(found.tileExtent.height);
    call.out.Put<uint32_t>(found.tileExtent.depth);
    call.out.Put<uint32_t>(found.miptailFirstLevel);
    call.out.Put<uint64_t>(found.miptailSize);
    call.out.Put<uint32_t>(found.flags);
  }
  return {};
}

}  // namespace

Status Serve_cuArray3DCreate_v2(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  CUDA_ARRAY3D_DESCRIPTOR shape = GetShape(call.in);
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kArray, wire);
  if (!call.ready()) return call.RejectStatus();
  CUarray array = nullptr;
  Make(call, HandleKind::kArray, wire, shape, 1, [&](void** native) {
    CUresult result = call.api.cuArray3DCreate_v2(&array, &shape);
    *native = array;
    return result;
  });
  if (call.result == CUDA_SUCCESS) PutShape(call, array, shape);
  return {};
}

Status Serve_cuMipmappedArrayCreate(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  CUDA_ARRAY3D_DESCRIPTOR shape = GetShape(call.in);
  auto levels = call.in.Get<uint32_t>();
  if (!call.in.Done()) return call.Malformed("body");
  call.CheckNew(HandleKind::kMipmappedArray, wire);
  if (!call.ready()) return call.RejectStatus();
  Make(call, HandleKind::kMipmappedArray, wire, shape, levels, [&](void** native) {
    CUmipmappedArray array = nullptr;
    CUresult result = call.api.cuMipmappedArrayCreate(&array, &shape, levels);
    *native = array;
    return result;
  });
  if (call.result == CUDA_SUCCESS) PutShape(call, nullptr, shape);
  return {};
}

Status Serve_cuArrayDestroy(ServeCall& call) {
  return Destroy<CUarray>(call, HandleKind::kArray, call.api.cuArrayDestroy);
}

Status Serve_cuMipmappedArrayDestroy(ServeCall& call) {
  return Destroy<CUmipmappedArray>(call, HandleKind::kMipmappedArray,
                                   call.api.cuMipmappedArrayDestroy);
}

Status Serve_cuArrayGetPlane(ServeCall& call) {
  return GetPart<CUarray>(call, HandleKind::kArray, call.api.cuArrayGetPlane);
}

Status Serve_cuMipmappedArrayGetLevel(ServeCall& call) {
  return GetPart<CUmipmappedArray>(call, HandleKind::kMipmappedArray,
                                   call.api.cuMipmappedArrayGetLevel);
}

Status Serve_cuArrayGetSparseProperties(ServeCall& call) {
  return GetSparse<CUarray>(call, HandleKind::kArray, call.api.cuArrayGetSparseProperties);
}

Status Serve_cuMipmappedArrayGetSparseProperties(ServeCall& call) {
  return GetSparse<CUmipmappedArray>(call, HandleKind::kMipmappedArray,
                                     call.api.cuMipmappedArrayGetSparseProperties);
}

}  // namespace farcall::server
