// SPDX-License-Identifier: Apache-2.0
// Allocation, and what an address is.
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

// Rows that elements of any size up to this may start in.
constexpr unsigned kWidestElement = 4;

CUdeviceptr* AsAddress(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}

}  // namespace

cudaError_t Call_cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemAlloc_v2(AsAddress(pointer), bytes));
}

cudaError_t Call_cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemHostAlloc(pointer, bytes, flags));
}

cudaError_t Call_cudaMallocHost(void** pointer, size_t bytes) {
  return Call_cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t Call_cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemAllocManaged(AsAddress(pointer), bytes, flags));
}

cudaError_t Call_cudaFree(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  return FromDriver(g_driver.cuMemFree_v2(reinterpret_cast<CUdeviceptr>(pointer)));
}

cudaError_t Call_cudaFreeHost(void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  return FromDriver(g_driver.cuMemFreeHost(pointer));
}

cudaError_t Call_cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pointer == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  *pitch = 0;
  if (width == 0 || height == 0) return cudaSuccess;
  return FromDriver(
      g_driver.cuMemAllocPitch_v2(AsAddress(pointer), pitch, width, height, kWidestElement));
}

cudaError_t Call_cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  if (pitched == nullptr) return cudaErrorInvalidValue;
  size_t rows = 0;
  if (__builtin_mul_overflow(extent.height, extent.depth, &rows)) return cudaErrorInvalidValue;
  cudaPitchedPtr made = {nullptr, 0, extent.width, extent.height};
  cudaError_t error = Call_cudaMallocPitch(&made.ptr, &made.pitch, extent.width, rows);
  if (error == cudaSuccess) *pitched = made;
  return error;
}

cudaError_t Call_cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  return FromDriver(g_driver.cuMemAllocAsync(AsAddress(pointer), bytes, stream));
}

cudaError_t Call_cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool,
                                         cudaStream_t stream) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  return FromDriver(g_driver.cuMemAllocFromPoolAsync(AsAddress(pointer), bytes, pool, stream));
}

cudaError_t Call_cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  unsigned type = 0, managed = 0;
  int device = 0;
  CUdeviceptr on_device = 0;
  void* on_host = nullptr;
  CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* answers[] = {&type, &managed, &device, &on_device, &on_host};
  CUresult result =
      g_driver.cuPointerGetAttributes(5, asked, answers, reinterpret_cast<CUdeviceptr>(pointer));
  if (result != CUDA_SUCCESS) return FromDriver(result);
  *attributes = {};
  if (type == 0) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    return cudaSuccess;
  }
  attributes->type = managed != 0                 ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeDevice;
  attributes->device = device;
  attributes->devicePointer = reinterpret_cast<void*>(on_device);
  attributes->hostPointer = on_host;
  return cudaSuccess;
}

}  // namespace farcall::cudart
