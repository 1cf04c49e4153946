// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects.
#include "client-shim/cudart/channels.h"
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

cudaError_t ToDriver(const cudaResourceDesc& from, CUDA_RESOURCE_DESC* to) {
  *to = {};
  to->resType = static_cast<CUresourcetype>(from.resType);
  to->flags = from.flags;
  Channels channels;
  switch (from.resType) {
    case cudaResourceTypeArray:
      to->res.array.hArray = reinterpret_cast<CUarray>(from.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      to->res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(from.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear: {
      const auto& linear = from.res.linear;
      if (cudaError_t error = cudart::ToDriver(linear.desc, &channels); error != cudaSuccess)
        return error;
      to->res.linear = {reinterpret_cast<CUdeviceptr>(linear.devPtr), channels.format,
                        channels.count, linear.sizeInBytes};
      return cudaSuccess;
    }
    case cudaResourceTypePitch2D: {
      const auto& rows = from.res.pitch2D;
      if (cudaError_t error = cudart::ToDriver(rows.desc, &channels); error != cudaSuccess)
        return error;
      to->res.pitch2D = {reinterpret_cast<CUdeviceptr>(rows.devPtr),
                         channels.format,
                         channels.count,
                         rows.width,
                         rows.height,
                         rows.pitchInBytes};
      return cudaSuccess;
    }
  }
  return cudaErrorInvalidValue;
}

cudaError_t FromDriver(const CUDA_RESOURCE_DESC& from, cudaResourceDesc* to) {
  *to = {};
  to->resType = static_cast<cudaResourceType>(from.resType);
  to->flags = from.flags;
  switch (from.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      to->res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      to->res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
      return cudaSuccess;
    case CU_RESOURCE_TYPE_LINEAR:
      to->res.linear.devPtr = reinterpret_cast<void*>(from.res.linear.devPtr);
      to->res.linear.sizeInBytes = from.res.linear.sizeInBytes;
      return cudart::FromDriver(Channels{from.res.linear.format, from.res.linear.numChannels},
                                &to->res.linear.desc);
    case CU_RESOURCE_TYPE_PITCH2D:
      to->res.pitch2D.devPtr = reinterpret_cast<void*>(from.res.pitch2D.devPtr);
      to->res.pitch2D.width = from.res.pitch2D.width;
      to->res.pitch2D.height = from.res.pitch2D.height;
      to->res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
      return cudart::FromDriver(Channels{from.res.pitch2D.format, from.res.pitch2D.numChannels},
                                &to->res.pitch2D.desc);
    default:
      return cudaErrorInvalidValue;
  }
}

void ToDriver(const cudaTextureDesc& from, CUDA_TEXTURE_DESC* to) {
  *to = {};
  for (int i = 0; i < 3; ++i) to->addressMode[i] = static_cast<CUaddress_mode>(from.addressMode[i]);
  to->filterMode = static_cast<CUfilter_mode>(from.filterMode);
  auto set = [&](bool on, unsigned flag) {
    if (on) to->flags |= flag;
  };
  set(from.readMode == cudaReadModeElementType, CU_TRSF_READ_AS_INTEGER);
  set(from.normalizedCoords != 0, CU_TRSF_NORMALIZED_COORDINATES);
  set(from.sRGB != 0, CU_TRSF_SRGB);
  set(from.disableTrilinearOptimization != 0, CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION);
  set(from.seamlessCubemap != 0, CU_TRSF_SEAMLESS_CUBEMAP);
  to->maxAnisotropy = from.maxAnisotropy;
  to->mipmapFilterMode = static_cast<CUfilter_mode>(from.mipmapFilterMode);
  to->mipmapLevelBias = from.mipmapLevelBias;
  to->minMipmapLevelClamp = from.minMipmapLevelClamp;
  to->maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) to->borderColor[i] = from.borderColor[i];
}

void FromDriver(const CUDA_TEXTURE_DESC& from, cudaTextureDesc* to) {
  *to = {};
  for (int i = 0; i < 3; ++i)
    to->addressMode[i] = static_cast<cudaTextureAddressMode>(from.addressMode[i]);
  to->filterMode = static_cast<cudaTextureFilterMode>(from.filterMode);
  to->readMode = (from.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType
                                                             : cudaReadModeNormalizedFloat;
  to->normalizedCoords = (from.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  to->sRGB = (from.flags & CU_TRSF_SRGB) != 0;
  to->disableTrilinearOptimization = (from.flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
  to->seamlessCubemap = (from.flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
  to->maxAnisotropy = from.maxAnisotropy;
  to->mipmapFilterMode = static_cast<cudaTextureFilterMode>(from.mipmapFilterMode);
  to->mipmapLevelBias = from.mipmapLevelBias;
  to->minMipmapLevelClamp = from.minMipmapLevelClamp;
  to->maxMipmapLevelClamp = from.maxMipmapLevelClamp;
  for (int i = 0; i < 4; ++i) to->borderColor[i] = from.borderColor[i];
}

bool IsFloat(CUarray_format format) {
  return format == CU_AD_FORMAT_FLOAT || format == CU_AD_FORMAT_HALF;
}

// What the runtime refuses before the driver is asked: values that the read mode cannot give.
cudaError_t CheckReadMode(const CUDA_RESOURCE_DESC& resource, const cudaTextureDesc& texture) {
  CUarray_format format;
  if (resource.resType == CU_RESOURCE_TYPE_LINEAR)
    format = resource.res.linear.format;
  else if (resource.resType == CU_RESOURCE_TYPE_PITCH2D)
    format = resource.res.pitch2D.format;
  else
    return cudaSuccess;
  const bool linear = texture.filterMode == cudaFilterModeLinear;
  if (texture.readMode == cudaReadModeElementType)
    return linear && !IsFloat(format) ? cudaErrorInvalidFilterSetting : cudaSuccess;
  if (IsFloat(format)) return cudaErrorInvalidNormSetting;
  if (format == CU_AD_FORMAT_SIGNED_INT32 || format == CU_AD_FORMAT_UNSIGNED_INT32)
    return linear ? cudaErrorInvalidFilterSetting : cudaErrorInvalidNormSetting;
  return cudaSuccess;
}

}  // namespace

cudaError_t Call_cudaCreateTextureObject(cudaTextureObject_t* object,
                                         const cudaResourceDesc* resource,
                                         const cudaTextureDesc* texture,
                                         const cudaResourceViewDesc* view) {
  if (object == nullptr || resource == nullptr) return cudaErrorInvalidValue;
  if (texture == nullptr) return cudaErrorInvalidResourceHandle;
  CUDA_RESOURCE_DESC driver_resource;
  if (cudaError_t error = ToDriver(*resource, &driver_resource); error != cudaSuccess) return error;
  if (cudaError_t error = CheckReadMode(driver_resource, *texture); error != cudaSuccess)
    return error;
  CUDA_TEXTURE_DESC driver_texture;
  ToDriver(*texture, &driver_texture);
  return cudart::FromDriver(
      Lower(g_driver.cuTexObjectCreate, object, &driver_resource, &driver_texture, view));
}

cudaError_t Call_cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource,
                                                  cudaTextureObject_t object) {
  if (resource == nullptr) return cudaErrorInvalidValue;
  CUDA_RESOURCE_DESC found;
  CUresult result = g_driver.cuTexObjectGetResourceDesc(&found, object);
  return result != CUDA_SUCCESS ? cudart::FromDriver(result) : FromDriver(found, resource);
}

cudaError_t Call_cudaGetTextureObjectTextureDesc(cudaTextureDesc* texture,
                                                 cudaTextureObject_t object) {
  if (texture == nullptr) return cudaErrorInvalidValue;
  CUDA_TEXTURE_DESC found;
  CUresult result = g_driver.cuTexObjectGetTextureDesc(&found, object);
  if (result == CUDA_SUCCESS) FromDriver(found, texture);
  return cudart::FromDriver(result);
}

cudaError_t Call_cudaCreateSurfaceObject(cudaSurfaceObject_t* object,
                                         const cudaResourceDesc* resource) {
  if (object == nullptr || resource == nullptr) return cudaErrorInvalidValue;
  CUDA_RESOURCE_DESC driver_resource;
  if (cudaError_t error = ToDriver(*resource, &driver_resource); error != cudaSuccess) return error;
  return cudart::FromDriver(g_driver.cuSurfObjectCreate(object, &driver_resource));
}

cudaError_t Call_cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource,
                                                  cudaSurfaceObject_t object) {
  if (resource == nullptr) return cudaErrorInvalidDevice;  // as NVIDIA's answers
  CUDA_RESOURCE_DESC found;
  CUresult result = g_driver.cuSurfObjectGetResourceDesc(&found, object);
  return result != CUDA_SUCCESS ? cudart::FromDriver(result) : FromDriver(found, resource);
}

}  // namespace farcall::cudart
