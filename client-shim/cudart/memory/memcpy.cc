// SPDX-License-Identifier: Apache-2.0
// Copies between pointers: the kind says which of the driver's calls.
#include <cstring>

#include "client-shim/cudart/device.h"
#include "client-shim/cudart/memory/copy.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

cudaError_t Rows(void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                 size_t height, cudaMemcpyKind kind, CUDA_MEMCPY2D* copy) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  if (height > 1 && (width > dst_pitch || width > src_pitch)) return cudaErrorInvalidPitchValue;
  *copy = {};
  copy->srcMemoryType = SourceType(kind);
  copy->dstMemoryType = TargetType(kind);
  copy->srcHost = src;
  copy->dstHost = dst;
  copy->srcDevice = Address(src);
  copy->dstDevice = Address(dst);
  copy->srcPitch = src_pitch;
  copy->dstPitch = dst_pitch;
  copy->WidthInBytes = width;
  copy->Height = height;
  return cudaSuccess;
}

struct Peers {
  CUcontext dst = nullptr;
  CUcontext src = nullptr;
};

cudaError_t ContextsOf(int dst_device, int src_device, Peers* peers) {
  if (dst_device < 0 || dst_device >= DeviceCount() || src_device < 0 ||
      src_device >= DeviceCount())
    return cudaErrorInvalidDevice;
  if (cudaError_t error = PrimaryContext(dst_device, &peers->dst); error != cudaSuccess)
    return error;
  return PrimaryContext(src_device, &peers->src);
}

cudaError_t ToPeerCopy(const cudaMemcpy3DPeerParms* params, CUDA_MEMCPY3D_PEER* copy) {
  if (params == nullptr) return cudaErrorInvalidValue;
  Peers peers;
  if (cudaError_t error = ContextsOf(params->dstDevice, params->srcDevice, &peers);
      error != cudaSuccess)
    return error;
  if (cudaError_t error = ToDriver(*params, copy); error != cudaSuccess) return error;
  copy->dstContext = peers.dst;
  copy->srcContext = peers.src;
  return cudaSuccess;
}

bool IsEmpty(const cudaExtent& extent) {
  return extent.width == 0 || extent.height == 0 || extent.depth == 0;
}

}  // namespace

cudaError_t Call_cudaMemcpy(Side side, void* dst, const void* src, size_t count,
                            cudaMemcpyKind kind) {
  if (count == 0) return cudaSuccess;
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  const bool own = side == Side::kPerThread;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return FromDriver((own ? g_driver.cuMemcpyHtoD_v2_ptds : g_driver.cuMemcpyHtoD_v2)(
          Address(dst), src, count));
    case cudaMemcpyDeviceToHost:
      return FromDriver((own ? g_driver.cuMemcpyDtoH_v2_ptds : g_driver.cuMemcpyDtoH_v2)(
          dst, Address(src), count));
    case cudaMemcpyDeviceToDevice:
      return FromDriver((own ? g_driver.cuMemcpyDtoD_v2_ptds : g_driver.cuMemcpyDtoD_v2)(
          Address(dst), Address(src), count));
    default:
      return FromDriver(
          (own ? g_driver.cuMemcpy_ptds : g_driver.cuMemcpy)(Address(dst), Address(src), count));
  }
}

cudaError_t Call_cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return FromDriver(g_driver.cuMemcpyHtoDAsync_v2(Address(dst), src, count, stream));
    case cudaMemcpyDeviceToHost:
      return FromDriver(g_driver.cuMemcpyDtoHAsync_v2(dst, Address(src), count, stream));
    case cudaMemcpyDeviceToDevice:
      return FromDriver(g_driver.cuMemcpyDtoDAsync_v2(Address(dst), Address(src), count, stream));
    default:
      return FromDriver(g_driver.cuMemcpyAsync(Address(dst), Address(src), count, stream));
  }
}

cudaError_t Call_cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                                size_t count) {
  Peers peers;
  if (cudaError_t error = ContextsOf(dst_device, src_device, &peers); error != cudaSuccess)
    return error;
  if (count == 0) return cudaSuccess;
  return FromDriver(g_driver.cuMemcpyPeer(Address(dst), peers.dst, Address(src), peers.src, count));
}

cudaError_t Call_cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                     size_t count, cudaStream_t stream) {
  Peers peers;
  if (cudaError_t error = ContextsOf(dst_device, src_device, &peers); error != cudaSuccess)
    return error;
  if (count == 0) return cudaSuccess;
  return FromDriver(
      g_driver.cuMemcpyPeerAsync(Address(dst), peers.dst, Address(src), peers.src, count, stream));
}

cudaError_t Call_cudaMemcpy2D(Side side, void* dst, size_t dpitch, const void* src, size_t spitch,
                              size_t width, size_t height, cudaMemcpyKind kind) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = Rows(dst, dpitch, src, spitch, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2D(side, copy);
}

cudaError_t Call_cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch,
                                   size_t width, size_t height, cudaMemcpyKind kind,
                                   cudaStream_t stream) {
  CUDA_MEMCPY2D copy;
  cudaError_t error = Rows(dst, dpitch, src, spitch, width, height, kind, &copy);
  return error != cudaSuccess ? error : Copy2DAsync(copy, stream);
}

cudaError_t Call_cudaMemcpy3D(Side side, const cudaMemcpy3DParms* params) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy;
  if (cudaError_t error = ToDriver(*params, &copy); error != cudaSuccess) return error;
  if (IsEmpty(params->extent)) return cudaSuccess;
  return FromDriver(side == Side::kPerThread ? g_driver.cuMemcpy3D_v2_ptds(&copy)
                                             : g_driver.cuMemcpy3D_v2(&copy));
}

cudaError_t Call_cudaMemcpy3DAsync(const cudaMemcpy3DParms* params, cudaStream_t stream) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy;
  if (cudaError_t error = ToDriver(*params, &copy); error != cudaSuccess) return error;
  if (IsEmpty(params->extent)) return cudaSuccess;
  return FromDriver(g_driver.cuMemcpy3DAsync_v2(&copy, stream));
}

cudaError_t Call_cudaMemcpy3DPeer(Side side, const cudaMemcpy3DPeerParms* params) {
  CUDA_MEMCPY3D_PEER copy;
  if (cudaError_t error = ToPeerCopy(params, &copy); error != cudaSuccess) return error;
  return FromDriver(side == Side::kPerThread ? g_driver.cuMemcpy3DPeer_ptds(&copy)
                                             : g_driver.cuMemcpy3DPeer(&copy));
}

cudaError_t Call_cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* params, cudaStream_t stream) {
  CUDA_MEMCPY3D_PEER copy;
  if (cudaError_t error = ToPeerCopy(params, &copy); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuMemcpy3DPeerAsync(&copy, stream));
}

}  // namespace farcall::cudart
