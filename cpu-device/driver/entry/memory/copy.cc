// SPDX-License-Identifier: Apache-2.0
// Copies between linear memories, in every variant of stream and synchrony.
#include "cpu-device/driver/work/copy.h"

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

constexpr CUstream kLegacy = nullptr;

uint64_t Address(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

CUresult Linear(CUstream stream, uint64_t dst, End dst_end, uint64_t src, End src_end, size_t bytes,
                bool sync) {
  CopyOp copy;
  copy.dst = dst;
  copy.src = src;
  copy.width = copy.dst_pitch = copy.src_pitch = bytes;
  return SubmitCopy(stream, copy, dst_end, src_end, sync);
}

CUresult Copy2D(CUstream stream, const CUDA_MEMCPY2D* copy, bool sync) {
  CopyOp op;
  End dst, src;
  if (const CUresult result = FromMemcpy2D(copy, &op, &dst, &src)) return result;
  return SubmitCopy(stream, op, dst, src, sync);
}

CUresult Copy3D(CUstream stream, const CUDA_MEMCPY3D* copy, bool sync) {
  CopyOp op;
  End dst, src;
  if (const CUresult result = FromMemcpy3D(copy, &op, &dst, &src)) return result;
  return SubmitCopy(stream, op, dst, src, sync);
}

// One address space: a copy between devices is a copy.
CUresult Copy3DPeer(CUstream stream, const CUDA_MEMCPY3D_PEER* peer, bool sync) {
  if (peer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D copy{};
  copy.srcXInBytes = peer->srcXInBytes;
  copy.srcY = peer->srcY;
  copy.srcZ = peer->srcZ;
  copy.srcMemoryType = peer->srcMemoryType;
  copy.srcHost = peer->srcHost;
  copy.srcDevice = peer->srcDevice;
  copy.srcPitch = peer->srcPitch;
  copy.srcHeight = peer->srcHeight;
  copy.dstXInBytes = peer->dstXInBytes;
  copy.dstY = peer->dstY;
  copy.dstZ = peer->dstZ;
  copy.dstMemoryType = peer->dstMemoryType;
  copy.dstHost = peer->dstHost;
  copy.dstDevice = peer->dstDevice;
  copy.dstPitch = peer->dstPitch;
  copy.dstHeight = peer->dstHeight;
  copy.WidthInBytes = peer->WidthInBytes;
  copy.Height = peer->Height;
  copy.Depth = peer->Depth;
  return Copy3D(stream, &copy, sync);
}

CUresult Peer(CUstream stream, CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
              size_t bytes, bool sync) {
  if (const CUresult result = CheckInitialized()) return result;
  if (TheDriver().contexts.Find(to) == nullptr || TheDriver().contexts.Find(from) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  return Linear(stream, dst, End::kDevice, src, End::kDevice, bytes, sync);
}

CUresult Batch(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUstream stream) {
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0 || stream == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i)
    if (const CUresult result =
            Linear(stream, dsts[i], End::kUnified, srcs[i], End::kUnified, sizes[i], false))
      return result;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Linear(kLegacy, dst, End::kUnified, src, End::kUnified, bytes, true);
}
CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Linear(CU_STREAM_PER_THREAD, dst, End::kUnified, src, End::kUnified, bytes, true);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Linear(stream, dst, End::kUnified, src, End::kUnified, bytes, false);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Linear(Ptsz(stream), dst, End::kUnified, src, End::kUnified, bytes, false);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void* src, size_t bytes) {
  return Linear(kLegacy, dst, End::kDevice, Address(src), End::kHost, bytes, true);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void* src, size_t bytes) {
  return Linear(CU_STREAM_PER_THREAD, dst, End::kDevice, Address(src), End::kHost, bytes, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return Linear(stream, dst, End::kDevice, Address(src), End::kHost, bytes, false);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dst, const void* src, size_t bytes,
                                   CUstream stream) {
  return Linear(Ptsz(stream), dst, End::kDevice, Address(src), End::kHost, bytes, false);
}

CUresult cuMemcpyDtoH_v2(void* dst, CUdeviceptr src, size_t bytes) {
  return Linear(kLegacy, Address(dst), End::kHost, src, End::kDevice, bytes, true);
}
CUresult cuMemcpyDtoH_v2_ptds(void* dst, CUdeviceptr src, size_t bytes) {
  return Linear(CU_STREAM_PER_THREAD, Address(dst), End::kHost, src, End::kDevice, bytes, true);
}
CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Linear(stream, Address(dst), End::kHost, src, End::kDevice, bytes, false);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Linear(Ptsz(stream), Address(dst), End::kHost, src, End::kDevice, bytes, false);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Linear(kLegacy, dst, End::kDevice, src, End::kDevice, bytes, true);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Linear(CU_STREAM_PER_THREAD, dst, End::kDevice, src, End::kDevice, bytes, true);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return Linear(stream, dst, End::kDevice, src, End::kDevice, bytes, false);
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                   CUstream stream) {
  return Linear(Ptsz(stream), dst, End::kDevice, src, End::kDevice, bytes, false);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  return Copy2D(kLegacy, copy, true);
}
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return Copy2D(CU_STREAM_PER_THREAD, copy, true);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(stream, copy, false);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* copy, CUstream stream) {
  return Copy2D(Ptsz(stream), copy, false);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  return Copy3D(kLegacy, copy, true);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* copy) {
  return Copy3D(CU_STREAM_PER_THREAD, copy, true);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(stream, copy, false);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* copy, CUstream stream) {
  return Copy3D(Ptsz(stream), copy, false);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  return Copy2D(kLegacy, copy, true);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* copy) {
  return Copy2D(CU_STREAM_PER_THREAD, copy, true);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  return Copy3DPeer(kLegacy, copy, true);
}
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* copy) {
  return Copy3DPeer(CU_STREAM_PER_THREAD, copy, true);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return Copy3DPeer(stream, copy, false);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  return Copy3DPeer(Ptsz(stream), copy, false);
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                      size_t bytes) {
  return Peer(kLegacy, dst, to, src, from, bytes, true);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                           size_t bytes) {
  return Peer(CU_STREAM_PER_THREAD, dst, to, src, from, bytes, true);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                           size_t bytes, CUstream stream) {
  return Peer(stream, dst, to, src, from, bytes, false);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                                size_t bytes, CUstream stream) {
  return Peer(Ptsz(stream), dst, to, src, from, bytes, false);
}

// Copies of a batch may run in any order; in the order given is one of them.
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes*, size_t*, size_t, CUstream stream) {
  return Batch(dsts, srcs, sizes, count, stream);
}
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                    size_t count, CUmemcpyAttributes*, size_t*, size_t,
                                    CUstream stream) {
  return Batch(dsts, srcs, sizes, count, Ptsz(stream));
}

}  // extern "C"
