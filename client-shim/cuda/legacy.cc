// SPDX-License-Identifier: Apache-2.0
// Names of older APIs: sizes and addresses of 32 bits, and uses of a context.
#include <limits>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// Sizes saturate, as they always have under these names.
unsigned Saturated(uint64_t value) {
  constexpr uint64_t kMax = std::numeric_limits<unsigned>::max();
  return static_cast<unsigned>(value < kMax ? value : kMax);
}

bool Fits(uint64_t value) {
  return value <= std::numeric_limits<unsigned>::max();
}

// An address that does not fit is no address that these names could give.
CUresult GiveAddress(CUresult status, CUdeviceptr address, CUdeviceptr_v1* out) {
  if (status != CUDA_SUCCESS) return status;
  if (out == nullptr) return CUDA_SUCCESS;
  if (!Fits(address)) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<CUdeviceptr_v1>(address);
  return CUDA_SUCCESS;
}

CUDA_MEMCPY2D Widened(const CUDA_MEMCPY2D_v1& copy) {
  CUDA_MEMCPY2D wide{};
  wide.srcXInBytes = copy.srcXInBytes;
  wide.srcY = copy.srcY;
  wide.srcMemoryType = copy.srcMemoryType;
  wide.srcHost = copy.srcHost;
  wide.srcDevice = copy.srcDevice;
  wide.srcArray = copy.srcArray;
  wide.srcPitch = copy.srcPitch;
  wide.dstXInBytes = copy.dstXInBytes;
  wide.dstY = copy.dstY;
  wide.dstMemoryType = copy.dstMemoryType;
  wide.dstHost = copy.dstHost;
  wide.dstDevice = copy.dstDevice;
  wide.dstArray = copy.dstArray;
  wide.dstPitch = copy.dstPitch;
  wide.WidthInBytes = copy.WidthInBytes;
  wide.Height = copy.Height;
  return wide;
}

CUDA_MEMCPY3D Widened(const CUDA_MEMCPY3D_v1& copy) {
  CUDA_MEMCPY3D wide{};
  wide.srcXInBytes = copy.srcXInBytes;
  wide.srcY = copy.srcY;
  wide.srcZ = copy.srcZ;
  wide.srcLOD = copy.srcLOD;
  wide.srcMemoryType = copy.srcMemoryType;
  wide.srcHost = copy.srcHost;
  wide.srcDevice = copy.srcDevice;
  wide.srcArray = copy.srcArray;
  wide.srcPitch = copy.srcPitch;
  wide.srcHeight = copy.srcHeight;
  wide.dstXInBytes = copy.dstXInBytes;
  wide.dstY = copy.dstY;
  wide.dstZ = copy.dstZ;
  wide.dstLOD = copy.dstLOD;
  wide.dstMemoryType = copy.dstMemoryType;
  wide.dstHost = copy.dstHost;
  wide.dstDevice = copy.dstDevice;
  wide.dstArray = copy.dstArray;
  wide.dstPitch = copy.dstPitch;
  wide.dstHeight = copy.dstHeight;
  wide.WidthInBytes = copy.WidthInBytes;
  wide.Height = copy.Height;
  wide.Depth = copy.Depth;
  return wide;
}

// Memory above 4 GiB cannot be told; there is none below.
CUresult KeepIfLow(CUdeviceptr address, CUdeviceptr_v1* out) {
  if (out != nullptr && Fits(address)) {
    *out = static_cast<CUdeviceptr_v1>(address);
    return CUDA_SUCCESS;
  }
  Call_cuMemFree_v2(address);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

CUresult Call_cuDeviceTotalMem(unsigned int* bytes, CUdevice dev) {
  size_t wide = 0;
  CUresult status = Call_cuDeviceTotalMem_v2(bytes == nullptr ? nullptr : &wide, dev);
  if (status == CUDA_SUCCESS && bytes != nullptr) *bytes = Saturated(wide);
  return status;
}

CUresult Call_cuMemGetInfo(unsigned int* free, unsigned int* total) {
  size_t wide_free = 0, wide_total = 0;
  CUresult status = Call_cuMemGetInfo_v2(&wide_free, &wide_total);
  if (status != CUDA_SUCCESS) return status;
  if (free != nullptr) *free = Saturated(wide_free);
  if (total != nullptr) *total = Saturated(wide_total);
  return CUDA_SUCCESS;
}

CUresult Call_cuMemAlloc(CUdeviceptr_v1* dptr, unsigned int bytesize) {
  CUdeviceptr wide = 0;
  CUresult status = Call_cuMemAlloc_v2(dptr == nullptr ? nullptr : &wide, bytesize);
  return status != CUDA_SUCCESS ? status : KeepIfLow(wide, dptr);
}

CUresult Call_cuMemAllocPitch(CUdeviceptr_v1* dptr, unsigned int* pPitch, unsigned int WidthInBytes,
                              unsigned int Height, unsigned int ElementSizeBytes) {
  CUdeviceptr wide = 0;
  size_t pitch = 0;
  CUresult status = Call_cuMemAllocPitch_v2(dptr == nullptr ? nullptr : &wide,
                                            pPitch == nullptr ? nullptr : &pitch, WidthInBytes,
                                            Height, ElementSizeBytes);
  if (status == CUDA_SUCCESS) status = KeepIfLow(wide, dptr);
  if (status == CUDA_SUCCESS && pPitch != nullptr) *pPitch = static_cast<unsigned>(pitch);
  return status;
}

CUresult Call_cuMemGetAddressRange(CUdeviceptr_v1* pbase, unsigned int* psize,
                                   CUdeviceptr_v1 dptr) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CUresult status = Call_cuMemGetAddressRange_v2(&base, &bytes, dptr);
  if (status == CUDA_SUCCESS && psize != nullptr) *psize = Saturated(bytes);
  return GiveAddress(status, base, pbase);
}

CUresult Call_cuMemHostGetDevicePointer(CUdeviceptr_v1* pdptr, void* p, unsigned int Flags) {
  CUdeviceptr address = 0;
  CUresult status =
      Call_cuMemHostGetDevicePointer_v2(pdptr == nullptr ? nullptr : &address, p, Flags);
  return GiveAddress(status, address, pdptr);
}

CUresult Call_cuModuleGetGlobal(CUdeviceptr_v1* dptr, unsigned int* bytes, CUmodule hmod,
                                const char* name) {
  CUdeviceptr address = 0;
  size_t wide = 0;
  CUresult status = Call_cuModuleGetGlobal_v2(&address, &wide, hmod, name);
  if (status == CUDA_SUCCESS && bytes != nullptr) *bytes = Saturated(wide);
  return GiveAddress(status, address, dptr);
}

CUresult Call_cuMemcpy2D(const CUDA_MEMCPY2D_v1* pCopy) {
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY2D wide = Widened(*pCopy);
  return Call_cuMemcpy2D_v2(&wide, nullptr);
}

CUresult Call_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1* pCopy) {
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY2D wide = Widened(*pCopy);
  return Call_cuMemcpy2DUnaligned_v2(&wide, nullptr);
}

CUresult Call_cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1* pCopy, CUstream hStream) {
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY2D wide = Widened(*pCopy);
  return Call_cuMemcpy2DAsync_v2(&wide, hStream);
}

CUresult Call_cuMemcpy3D(const CUDA_MEMCPY3D_v1* pCopy) {
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D wide = Widened(*pCopy);
  return Call_cuMemcpy3D_v2(&wide, nullptr);
}

CUresult Call_cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1* pCopy, CUstream hStream) {
  if (pCopy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D wide = Widened(*pCopy);
  return Call_cuMemcpy3DAsync_v2(&wide, hStream);
}

CUresult Call_cuCtxAttach(CUcontext* pctx, unsigned int flags) {
  if (pctx == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Context* context = CurrentContext();
  context->uses.fetch_add(1);
  *pctx = AsCuda(context);
  return CUDA_SUCCESS;
}

CUresult Call_cuCtxDetach(CUcontext ctx) {
  Context* context = FindContext(ctx);
  if (context == nullptr || context != CurrentContext()) return CUDA_ERROR_INVALID_CONTEXT;
  int uses = context->uses.load();
  // The last use of a primary context is not this call's to end.
  do {
    if (uses <= 1) return context->primary ? CUDA_ERROR_INVALID_CONTEXT : Call_cuCtxDestroy_v2(ctx);
  } while (!context->uses.compare_exchange_weak(uses, uses - 1));
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
