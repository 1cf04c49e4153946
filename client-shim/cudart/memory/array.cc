// SPDX-License-Identifier: Apache-2.0
// Arrays and mipmapped arrays.
#include "client-shim/cudart/channels.h"
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/device.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

cudaError_t Describe(const cudaChannelFormatDesc* desc, const cudaExtent& extent,
                     unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR* to) {
  if (desc == nullptr) return cudaErrorInvalidValue;
  Channels channels;
  if (cudaError_t error = ToDriver(*desc, &channels); error != cudaSuccess) return error;
  *to = {extent.width, extent.height, extent.depth, channels.format, channels.count, flags};
  return cudaSuccess;
}

CUarray AsArray(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

}  // namespace

cudaError_t Call_cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                   cudaExtent extent, unsigned int flags) {
  if (array == nullptr) return cudaErrorInvalidValue;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (cudaError_t error = Describe(desc, extent, flags, &descriptor); error != cudaSuccess)
    return error;
  return FromDriver(g_driver.cuArray3DCreate_v2(reinterpret_cast<CUarray*>(array), &descriptor));
}

cudaError_t Call_cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc,
                                 size_t width, size_t height, unsigned int flags) {
  return Call_cudaMalloc3DArray(array, desc, {width, height, 0}, flags);
}

cudaError_t Call_cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                          const cudaChannelFormatDesc* desc, cudaExtent extent,
                                          unsigned int levels, unsigned int flags) {
  if (array == nullptr) return cudaErrorInvalidValue;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (cudaError_t error = Describe(desc, extent, flags, &descriptor); error != cudaSuccess)
    return error;
  return FromDriver(g_driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(array),
                                                    &descriptor, levels));
}

cudaError_t Call_cudaFreeArray(cudaArray_t array) {
  if (array == nullptr) return cudaSuccess;
  return FromDriver(g_driver.cuArrayDestroy(AsArray(array)));
}

cudaError_t Call_cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  if (array == nullptr) return cudaSuccess;
  return FromDriver(g_driver.cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(array)));
}

cudaError_t Call_cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent,
                                  unsigned int* flags, cudaArray_t array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  CUresult result = g_driver.cuArray3DGetDescriptor_v2(&descriptor, AsArray(array));
  if (result != CUDA_SUCCESS) return FromDriver(result);
  if (flags != nullptr) *flags = descriptor.Flags;
  if (extent != nullptr) *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
  return desc == nullptr ? cudaSuccess
                         : FromDriver({descriptor.Format, descriptor.NumChannels}, desc);
}

cudaError_t Call_cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  if (desc == nullptr) return cudaErrorInvalidValue;
  return Call_cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

cudaError_t Call_cudaDeviceGetTexture1DLinearMaxWidth(size_t* width,
                                                      const cudaChannelFormatDesc* desc,
                                                      int device) {
  if (desc == nullptr) return cudaErrorInvalidValue;
  Channels channels;
  if (cudaError_t error = ToDriver(*desc, &channels); error != cudaSuccess) return error;
  return FromDriver(
      g_driver.cuDeviceGetTexture1DLinearMaxWidth(width, channels.format, channels.count, device));
}

cudaError_t Call_cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t* array, cudaExternalMemory_t memory,
    const cudaExternalMemoryMipmappedArrayDesc* desc) {
  if (array == nullptr || desc == nullptr) return cudaErrorInvalidValue;
  CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC to = {};
  to.offset = desc->offset;
  to.numLevels = desc->numLevels;
  if (cudaError_t error = Describe(&desc->formatDesc, desc->extent, desc->flags, &to.arrayDesc);
      error != cudaSuccess)
    return error;
  return FromDriver(Lower(g_driver.cuExternalMemoryGetMappedMipmappedArray, array, memory, &to));
}

}  // namespace farcall::cudart

extern "C" __attribute__((visibility("default"))) cudaChannelFormatDesc cudaCreateChannelDesc(
    int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
