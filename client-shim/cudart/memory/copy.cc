// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cudart/memory/copy.h"

#include "client-shim/cudart/channels.h"

namespace farcall::cudart {
namespace {

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

CUarray AsArray(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

// One element size for both sides: bytes if no array takes part.
cudaError_t Unit(cudaArray_const_t src, cudaArray_const_t dst, size_t* unit) {
  *unit = 1;
  if (src == nullptr && dst == nullptr) return cudaSuccess;
  size_t of_src = 0, of_dst = 0;
  if (src != nullptr) {
    if (cudaError_t error = ElementBytes(src, &of_src); error != cudaSuccess) return error;
  }
  if (dst != nullptr) {
    if (cudaError_t error = ElementBytes(dst, &of_dst); error != cudaSuccess) return error;
  }
  if (of_src != 0 && of_dst != 0 && of_src != of_dst) return cudaErrorInvalidValue;
  *unit = of_src != 0 ? of_src : of_dst;
  return cudaSuccess;
}

template <typename Copy>
void SetSource(cudaArray_t array, const cudaPos& pos, const cudaPitchedPtr& ptr, CUmemorytype type,
               size_t unit, Copy* to) {
  to->srcXInBytes = pos.x * (array != nullptr ? unit : 1);
  to->srcY = pos.y;
  to->srcZ = pos.z;
  to->srcMemoryType = array != nullptr ? CU_MEMORYTYPE_ARRAY : type;
  if (array != nullptr) {
    to->srcArray = AsArray(array);
    return;
  }
  if (type == CU_MEMORYTYPE_HOST)
    to->srcHost = ptr.ptr;
  else
    to->srcDevice = Address(ptr.ptr);
  to->srcPitch = ptr.pitch;
  to->srcHeight = ptr.ysize;
}

template <typename Copy>
void SetTarget(cudaArray_t array, const cudaPos& pos, const cudaPitchedPtr& ptr, CUmemorytype type,
               size_t unit, Copy* to) {
  to->dstXInBytes = pos.x * (array != nullptr ? unit : 1);
  to->dstY = pos.y;
  to->dstZ = pos.z;
  to->dstMemoryType = array != nullptr ? CU_MEMORYTYPE_ARRAY : type;
  if (array != nullptr) {
    to->dstArray = AsArray(array);
    return;
  }
  if (type == CU_MEMORYTYPE_HOST)
    to->dstHost = ptr.ptr;
  else
    to->dstDevice = Address(ptr.ptr);
  to->dstPitch = ptr.pitch;
  to->dstHeight = ptr.ysize;
}

// Exactly one of an array and a pointer on each side.
template <typename Params>
bool IsWhole(const Params& from) {
  return (from.srcArray == nullptr) != (from.srcPtr.ptr == nullptr) &&
         (from.dstArray == nullptr) != (from.dstPtr.ptr == nullptr);
}

bool HasPitch(const cudaPitchedPtr& ptr, size_t width, const cudaExtent& extent) {
  return ptr.ptr == nullptr || ptr.pitch >= width || (extent.height <= 1 && extent.depth <= 1);
}

template <typename Params, typename Copy>
cudaError_t Fill(const Params& from, CUmemorytype src, CUmemorytype dst, Copy* to) {
  if (!IsWhole(from)) return cudaErrorInvalidValue;
  size_t unit = 1;
  if (cudaError_t error = Unit(from.srcArray, from.dstArray, &unit); error != cudaSuccess)
    return error;
  *to = {};
  if (__builtin_mul_overflow(from.extent.width, unit, &to->WidthInBytes))
    return cudaErrorInvalidValue;
  if (!HasPitch(from.srcPtr, to->WidthInBytes, from.extent) ||
      !HasPitch(from.dstPtr, to->WidthInBytes, from.extent))
    return cudaErrorInvalidPitchValue;
  to->Height = from.extent.height;
  to->Depth = from.extent.depth;
  SetSource(from.srcArray, from.srcPos, from.srcPtr, src, unit, to);
  SetTarget(from.dstArray, from.dstPos, from.dstPtr, dst, unit, to);
  return cudaSuccess;
}

}  // namespace

CUmemorytype SourceType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                                            : CU_MEMORYTYPE_HOST;
}

CUmemorytype TargetType(cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice ? CU_MEMORYTYPE_DEVICE
                                                                            : CU_MEMORYTYPE_HOST;
}

cudaError_t ElementBytes(cudaArray_const_t array, size_t* bytes) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  CUresult result = g_driver.cuArray3DGetDescriptor_v2(&descriptor, AsArray(array));
  if (result != CUDA_SUCCESS) return FromDriver(result);
  *bytes = BytesOf(descriptor.Format, descriptor.NumChannels);
  return *bytes != 0 ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

cudaError_t ToDriver(const cudaMemcpy3DParms& from, CUDA_MEMCPY3D* to) {
  if (!IsKind(from.kind)) return cudaErrorInvalidMemcpyDirection;
  return Fill(from, SourceType(from.kind), TargetType(from.kind), to);
}

cudaError_t ToDriver(const cudaMemcpy3DPeerParms& from, CUDA_MEMCPY3D_PEER* to) {
  return Fill(from, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE, to);
}

cudaError_t FromDriver(const CUDA_MEMCPY3D& from, cudaMemcpy3DParms* to) {
  *to = {};
  to->srcArray = reinterpret_cast<cudaArray_t>(from.srcArray);
  to->dstArray = reinterpret_cast<cudaArray_t>(from.dstArray);
  size_t unit = 1;
  if (cudaError_t error = Unit(to->srcArray, to->dstArray, &unit); error != cudaSuccess)
    return error;
  to->srcPos = {from.srcXInBytes / (from.srcArray ? unit : 1), from.srcY, from.srcZ};
  to->dstPos = {from.dstXInBytes / (from.dstArray ? unit : 1), from.dstY, from.dstZ};
  const bool host_src = from.srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool host_dst = from.dstMemoryType == CU_MEMORYTYPE_HOST;
  void* src = host_src ? const_cast<void*>(from.srcHost) : reinterpret_cast<void*>(from.srcDevice);
  void* dst = host_dst ? from.dstHost : reinterpret_cast<void*>(from.dstDevice);
  if (from.srcArray == nullptr) to->srcPtr = {src, from.srcPitch, from.srcPitch, from.srcHeight};
  if (from.dstArray == nullptr) to->dstPtr = {dst, from.dstPitch, from.dstPitch, from.dstHeight};
  to->extent = {from.WidthInBytes / unit, from.Height, from.Depth};
  if (from.srcMemoryType == CU_MEMORYTYPE_UNIFIED || from.dstMemoryType == CU_MEMORYTYPE_UNIFIED)
    to->kind = cudaMemcpyDefault;
  else if (host_src)
    to->kind = host_dst ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
  else
    to->kind = host_dst ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
  return cudaSuccess;
}

CUDA_MEMCPY3D Linear(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  CUDA_MEMCPY3D to = {};
  to.WidthInBytes = count;
  to.Height = 1;
  to.Depth = 1;
  const cudaPitchedPtr from_row = {const_cast<void*>(src), count, count, 1};
  const cudaPitchedPtr to_row = {dst, count, count, 1};
  SetSource(nullptr, {}, from_row, SourceType(kind), 1, &to);
  SetTarget(nullptr, {}, to_row, TargetType(kind), 1, &to);
  return to;
}

cudaError_t Copy2D(Side side, const CUDA_MEMCPY2D& copy) {
  if (copy.WidthInBytes == 0 || copy.Height == 0) return cudaSuccess;
  return FromDriver(side == Side::kPerThread ? g_driver.cuMemcpy2DUnaligned_v2_ptds(&copy)
                                             : g_driver.cuMemcpy2DUnaligned_v2(&copy));
}

cudaError_t Copy2DAsync(const CUDA_MEMCPY2D& copy, cudaStream_t stream) {
  if (copy.WidthInBytes == 0 || copy.Height == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemcpy2DAsync_v2(&copy, stream));
}

}  // namespace farcall::cudart
