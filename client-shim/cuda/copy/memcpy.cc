// SPDX-License-Identifier: Apache-2.0
// One-dimensional copies that touch host memory.
#include "client-shim/core/roles.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/across.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/memory.h"
#include "client-shim/cuda/state/mirror.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

Upload SyncUpload() {
  return OthersLookAtUploads() ? Upload::kSettled : Upload::kSync;
}

CUresult Copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, uint64_t stream, bool sync) {
  dst = DeviceAddress(dst);
  src = DeviceAddress(src);
  bool to_device = IsDevicePointer(dst), from_device = IsDevicePointer(src);
  auto handle = reinterpret_cast<CUstream>(stream);
  if ((!to_device || !from_device) && Captures(FindStream(handle)))
    return CaptureCopy(handle, dst, src, bytes, sync);
  void* host_dst = reinterpret_cast<void*>(dst);
  const void* host_src = reinterpret_cast<const void*>(src);
  if (to_device && from_device) {
    CUresult posted = CopyOnDevice(dst, src, bytes, stream);
    return Captures(FindStream(handle)) ? posted : AwaitCopy(posted, dst, src, stream, sync);
  }
  if (to_device) {
    CUresult posted =
        CopyToDevice(dst, host_src, bytes, stream, sync ? SyncUpload() : Upload::kAsync);
    return AwaitCopy(posted, dst, src, stream, sync);
  }
  if (from_device)
    return CopyToHost(host_dst, src, bytes, stream,
                      sync || !IsPinned(host_dst, bytes) || IsHostMemory(src));
  return CopyOnHost(host_dst, host_src, bytes, stream);
}

// A copy whose call says which side is the device's, but whose addresses say otherwise. The one
// that is named as the device's has to be CUDA's: page-locked memory is, ordinary memory is not.
bool GoesByAddress(CUdeviceptr device, const void* host) {
  return IsDeviceAlone(host) || IsPinned(reinterpret_cast<const void*>(device), 1);
}

bool IsKnown(CUdeviceptr address) {
  Allocation found;
  return Memory().Find(address, &found);
}

}  // namespace

CUresult Call_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                       CUstream default_stream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(default_stream, false, &status);
  return status != CUDA_SUCCESS ? status : Copy(dst, src, ByteCount, stream, true);
}

CUresult Call_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  return status != CUDA_SUCCESS ? status : Copy(dst, src, ByteCount, stream, false);
}

CUresult Call_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                              CUstream default_stream) {
  if (GoesByAddress(dstDevice, srcHost)) {
    if (ByteCount != 0 && !IsKnown(dstDevice)) return CUDA_ERROR_INVALID_VALUE;
    return Call_cuMemcpy(dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount,
                         default_stream);
  }
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(default_stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(default_stream)))
    return CaptureCopy(default_stream, dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount,
                       true);
  return AwaitCopy(CopyToDevice(dstDevice, srcHost, ByteCount, stream, SyncUpload()), dstDevice,
                   reinterpret_cast<CUdeviceptr>(srcHost), stream, true);
}

CUresult Call_cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream default_stream) {
  if (GoesByAddress(srcDevice, dstHost)) {
    if (ByteCount != 0 && !IsKnown(srcDevice)) return CUDA_ERROR_INVALID_VALUE;
    return Call_cuMemcpy(reinterpret_cast<CUdeviceptr>(dstHost), srcDevice, ByteCount,
                         default_stream);
  }
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(default_stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(default_stream)))
    return CaptureCopy(default_stream, reinterpret_cast<CUdeviceptr>(dstHost), srcDevice, ByteCount,
                       true);
  return CopyToHost(dstHost, srcDevice, ByteCount, stream, true);
}

CUresult Call_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream default_stream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(default_stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  CUresult posted = Call_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, default_stream);
  return Captures(FindStream(default_stream))
             ? posted
             : AwaitCopy(posted, dstDevice, srcDevice, stream, IsHostMemory(dstDevice));
}

CUresult Call_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  CUresult status = CUDA_SUCCESS;
  const uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (IsAcross(dstDevice, srcDevice, stream, &status))
    return CopyAcross(dstDevice, srcDevice, ByteCount, stream);
  return status != CUDA_SUCCESS
             ? status
             : Post_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult Call_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                CUcontext srcContext, size_t ByteCount, CUstream hStream) {
  if (!CheckHandle(HandleKind::kContext, WireHandle(dstContext)) ||
      !CheckHandle(HandleKind::kContext, WireHandle(srcContext)))
    return CUDA_ERROR_INVALID_CONTEXT;
  CUresult status = CUDA_SUCCESS;
  const uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (IsAcross(dstDevice, srcDevice, stream, &status))
    return CopyAcross(dstDevice, srcDevice, ByteCount, stream);
  return status != CUDA_SUCCESS ? status
                                : Post_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice,
                                                         srcContext, ByteCount, hStream);
}

CUresult Call_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
  if (GoesByAddress(dstDevice, srcHost)) {
    if (ByteCount != 0 && !IsKnown(dstDevice)) return CUDA_ERROR_INVALID_VALUE;
    return Call_cuMemcpyAsync(dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount,
                              hStream);
  }
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(hStream)))
    return CaptureCopy(hStream, dstDevice, reinterpret_cast<CUdeviceptr>(srcHost), ByteCount,
                       false);
  return AwaitCopy(CopyToDevice(dstDevice, srcHost, ByteCount, stream, Upload::kAsync), dstDevice,
                   reinterpret_cast<CUdeviceptr>(srcHost), stream, false);
}

CUresult Call_cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  if (GoesByAddress(srcDevice, dstHost)) {
    if (ByteCount != 0 && !IsKnown(srcDevice)) return CUDA_ERROR_INVALID_VALUE;
    return Call_cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(dstHost), srcDevice, ByteCount,
                              hStream);
  }
  CUresult status = CUDA_SUCCESS;
  uint64_t stream = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  if (Captures(FindStream(hStream)))
    return CaptureCopy(hStream, reinterpret_cast<CUdeviceptr>(dstHost), srcDevice, ByteCount,
                       false);
  bool lands_later = IsPinned(dstHost, ByteCount) || IsMirroredRange(dstHost, ByteCount);
  bool wait = !lands_later || IsHostMemory(srcDevice);
  return CopyToHost(dstHost, srcDevice, ByteCount, stream, wait);
}

}  // namespace farcall::client
