// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects. Kernels take their values as they are, so the driver's own go to the
// client, and what comes back must be one of those. The partner is
// client-shim/cuda/objects/texture.cc.
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "proto/cuda/extent.h"
#include "proto/cuda/texture_codec.h"
#include "server/state/objects/context_state.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

// Into the driver's terms; not ready() if something in it is not the session's.
CUDA_RESOURCE_DESC Resolve(ServeCall& call, const ResourceRecord& record) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = static_cast<CUresourcetype>(record.type);
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      resource.res.array.hArray = call.Resolve<CUarray>(HandleKind::kArray, record.handle);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      resource.res.mipmap.hMipmappedArray =
          call.Resolve<CUmipmappedArray>(HandleKind::kMipmappedArray, record.handle);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      resource.res.linear.devPtr = call.ResolveAddress(record.address, record.width);
      resource.res.linear.format = static_cast<CUarray_format>(record.format);
      resource.res.linear.numChannels = record.channels;
      resource.res.linear.sizeInBytes = record.width;
      break;
    case CU_RESOURCE_TYPE_PITCH2D: {
      // Every format's elements have at most 16 bytes, and no row is longer than the pitch.
      uint64_t row = std::min(record.pitch, Product(record.width, 1));
      resource.res.pitch2D.devPtr =
          call.ResolveAddress(record.address, Pitched(record.pitch, row, record.height));
      resource.res.pitch2D.format = static_cast<CUarray_format>(record.format);
      resource.res.pitch2D.numChannels = record.channels;
      resource.res.pitch2D.width = record.width;
      resource.res.pitch2D.height = record.height;
      resource.res.pitch2D.pitchInBytes = record.pitch;
      break;
    }
    default:
      if (call.result == CUDA_SUCCESS) call.result = CUDA_ERROR_INVALID_VALUE;
  }
  return resource;
}

Status Destroy(ServeCall& call, ObjectKind kind, CUresult (*destroy)(unsigned long long)) {
  auto object = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  if (!call.session.objects().Remove(kind, object)) {
    call.result = CUDA_ERROR_INVALID_VALUE;
    return {};
  }
  call.result = destroy(object);
  return {};
}

void Give(ServeCall& call, ObjectKind kind, uint64_t object) {
  if (call.result != CUDA_SUCCESS) return;
  call.session.objects().Add(kind, object, call.context->slot);
  call.out.Put<uint64_t>(object);
}

}  // namespace

Status Serve_cuTexObjectCreate(ServeCall& call) {
  ResourceRecord record = GetResource(call.in);
  CUDA_TEXTURE_DESC texture = GetTexture(call.in);
  bool has_view = call.in.Get<uint8_t>() != 0;
  CUDA_RESOURCE_VIEW_DESC view{};
  if (has_view) view = GetView(call.in);
  if (!call.in.Done()) return call.Malformed("body");
  CUDA_RESOURCE_DESC resource = Resolve(call, record);
  if (!call.ready()) return call.RejectStatus();
  CUtexObject object = 0;
  call.result =
      call.api.cuTexObjectCreate == nullptr
          ? CUDA_ERROR_NOT_SUPPORTED
          : call.api.cuTexObjectCreate(&object, &resource, &texture, has_view ? &view : nullptr);
  Give(call, ObjectKind::kTexture, object);
  return {};
}

Status Serve_cuTexObjectDestroy(ServeCall& call) {
  return Destroy(call, ObjectKind::kTexture, call.api.cuTexObjectDestroy);
}

Status Serve_cuSurfObjectCreate(ServeCall& call) {
  ResourceRecord record = GetResource(call.in);
  if (!call.in.Done()) return call.Malformed("body");
  CUDA_RESOURCE_DESC resource = Resolve(call, record);
  if (!call.ready()) return call.RejectStatus();
  CUsurfObject object = 0;
  call.result = call.api.cuSurfObjectCreate == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : call.api.cuSurfObjectCreate(&object, &resource);
  Give(call, ObjectKind::kSurface, object);
  return {};
}

Status Serve_cuSurfObjectDestroy(ServeCall& call) {
  return Destroy(call, ObjectKind::kSurface, call.api.cuSurfObjectDestroy);
}

}  // namespace farcall::server
