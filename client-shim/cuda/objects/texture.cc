// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects: their values go into kernels' parameters as they are, so they are
// the driver's own; what they were made of is kept here.
#include "client-shim/cuda/objects/texture.h"

#include <map>
#include <mutex>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/array.h"
#include "generated/client/calls.h"
#include "proto/cuda/extent.h"
#include "proto/cuda/texture_codec.h"

namespace farcall::client {

namespace {

struct Texture {
  Context* context = nullptr;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false;
};

struct Objects {
  std::mutex mutex;
  std::map<uint64_t, Texture> textures, surfaces;
};
Objects* g_objects = new Objects;

// As it crosses, if the client finds nothing wrong with it.
CUresult Describe(const CUDA_RESOURCE_DESC& resource, ResourceRecord* record) {
  record->type = resource.resType;
  if (resource.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      record->handle = reinterpret_cast<uint64_t>(resource.res.array.hArray);
      return FindArray(resource.res.array.hArray) != nullptr ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_HANDLE;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      record->handle = reinterpret_cast<uint64_t>(resource.res.mipmap.hMipmappedArray);
      return FindMipmappedArray(resource.res.mipmap.hMipmappedArray) != nullptr
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_HANDLE;
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = resource.res.linear;
      record->address = linear.devPtr;
      record->format = linear.format;
      record->channels = linear.numChannels;
      record->width = linear.sizeInBytes;
      return HoldsMemory(linear.devPtr, linear.sizeInBytes) && linear.sizeInBytes != 0
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& plane = resource.res.pitch2D;
      record->address = plane.devPtr;
      record->format = plane.format;
      record->channels = plane.numChannels;
      record->width = plane.width;
      record->height = plane.height;
      record->pitch = plane.pitchInBytes;
      CUDA_ARRAY3D_DESCRIPTOR shape{};
      shape.Format = plane.format;
      shape.NumChannels = plane.numChannels;
      uint64_t row = Product(plane.width, ElementBytes(shape));
      return plane.width != 0 && plane.height != 0 && row != 0 && plane.pitchInBytes >= row &&
                     HoldsMemory(plane.devPtr, Pitched(plane.pitchInBytes, row, plane.height))
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult AskObject(CallId call, const Builder& body, uint64_t* object) {
  Reply reply;
  CUresult status = RoundTrip(call, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  auto made = outputs.Get<uint64_t>();
  if (!outputs.Done() || made == 0) return CUDA_ERROR_UNKNOWN;
  *object = made;
  return CUDA_SUCCESS;
}

CUresult PostDestroy(CallId call, std::map<uint64_t, Texture>& objects, uint64_t object) {
  {
    std::lock_guard lock(g_objects->mutex);
    if (objects.erase(object) == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  FixedBody<8> body;
  body.Put<uint64_t>(object);
  return Post(call, body.bytes());
}

// Hands out a part of what the object was made of.
template <typename Part>
CUresult Give(std::map<uint64_t, Texture>& objects, uint64_t object, Part Texture::*part,
              Part* out) {
  std::lock_guard lock(g_objects->mutex);
  auto found = objects.find(object);
  if (out == nullptr || found == objects.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = found->second.*part;
  return CUDA_SUCCESS;
}

}  // namespace

void DropContextTextures(Context* context) {
  std::lock_guard lock(g_objects->mutex);
  auto gone = [context](const auto& one) { return one.second.context == context; };
  std::erase_if(g_objects->textures, gone);
  std::erase_if(g_objects->surfaces, gone);
}

CUresult Call_cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                                const CUDA_TEXTURE_DESC* pTexDesc,
                                const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  ResourceRecord resource;
  CUresult status = Describe(*pResDesc, &resource);
  if (status != CUDA_SUCCESS) return status;
  Texture made;
  made.context = CurrentContext();
  made.resource = *pResDesc;
  made.texture = *pTexDesc;
  made.has_view = pResViewDesc != nullptr;
  if (made.has_view) made.view = *pResViewDesc;
  Builder body;
  PutResource(body, resource);
  PutTexture(body, made.texture);
  body.Put<uint8_t>(made.has_view ? 1 : 0);
  if (made.has_view) PutView(body, made.view);
  uint64_t object = 0;
  status = AskObject(CallId::cuTexObjectCreate, body, &object);
  if (status != CUDA_SUCCESS) return status;
  std::lock_guard lock(g_objects->mutex);
  g_objects->textures[object] = made;
  *pTexObject = object;
  return CUDA_SUCCESS;
}

CUresult Call_cuTexObjectDestroy(CUtexObject texObject) {
  return PostDestroy(CallId::cuTexObjectDestroy, g_objects->textures, texObject);
}

CUresult Call_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  return Give(g_objects->textures, texObject, &Texture::resource, pResDesc);
}

CUresult Call_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  return Give(g_objects->textures, texObject, &Texture::texture, pTexDesc);
}

CUresult Call_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc,
                                             CUtexObject texObject) {
  bool has_view = false;
  CUresult status = Give(g_objects->textures, texObject, &Texture::has_view, &has_view);
  if (status == CUDA_SUCCESS && !has_view) return CUDA_ERROR_INVALID_VALUE;
  return status != CUDA_SUCCESS
             ? status
             : Give(g_objects->textures, texObject, &Texture::view, pResViewDesc);
}

CUresult Call_cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  if (pSurfObject == nullptr || pResDesc == nullptr || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  ResourceRecord resource;
  CUresult status = Describe(*pResDesc, &resource);
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  PutResource(body, resource);
  uint64_t object = 0;
  status = AskObject(CallId::cuSurfObjectCreate, body, &object);
  if (status != CUDA_SUCCESS) return status;
  Texture made;
  made.context = CurrentContext();
  made.resource = *pResDesc;
  std::lock_guard lock(g_objects->mutex);
  g_objects->surfaces[object] = made;
  *pSurfObject = object;
  return CUDA_SUCCESS;
}

CUresult Call_cuSurfObjectDestroy(CUsurfObject surfObject) {
  return PostDestroy(CallId::cuSurfObjectDestroy, g_objects->surfaces, surfObject);
}

CUresult Call_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  return Give(g_objects->surfaces, surfObject, &Texture::resource, pResDesc);
}

}  // namespace farcall::client
