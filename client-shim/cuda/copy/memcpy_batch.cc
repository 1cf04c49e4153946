// SPDX-License-Identifier: Apache-2.0
// Batches of copies, and copies between contexts: each copy goes the way it would alone.
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/copy.h"
#include "client-shim/cuda/state/memory.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

bool IsAccessOrder(CUmemcpySrcAccessOrder order) {
  return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
         order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
         order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

// Attribute k is for the copies from attrsIdxs[k] on, up to those of the next.
bool AreAttributes(const CUmemcpyAttributes* attrs, const size_t* indices, size_t number,
                   size_t count) {
  if (attrs == nullptr || indices == nullptr || number == 0 || number > count || indices[0] != 0)
    return false;
  for (size_t i = 0; i < number; ++i)
    if (!IsAccessOrder(attrs[i].srcAccessOrder) || indices[i] >= count ||
        (i != 0 && indices[i] <= indices[i - 1]))
      return false;
  return true;
}

CUresult CopyOne(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUmemcpySrcAccessOrder order,
                 CUstream stream) {
  if (order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || IsDevicePointer(src) ||
      !IsDevicePointer(dst))
    return Call_cuMemcpyAsync(dst, src, bytes, stream);
  // The source may be gone when the call returns, page-locked or not.
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  return status != CUDA_SUCCESS
             ? status
             : CopyToDevice(dst, reinterpret_cast<const void*>(src), bytes, wire, Upload::kSync);
}

// The stream may not be the legacy default one.
CUresult CheckBatchStream(CUstream stream) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(stream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  return wire == 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CopyBatch(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                   CUmemcpyAttributes* attrs, size_t* indices, size_t number, size_t* failed,
                   CUstream stream) {
  *failed = SIZE_MAX;
  CUresult status = CheckBatchStream(stream);
  if (status != CUDA_SUCCESS) return status;
  if (dsts == nullptr || srcs == nullptr || sizes == nullptr || count == 0 ||
      !AreAttributes(attrs, indices, number, count))
    return CUDA_ERROR_INVALID_VALUE;
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    if (attribute + 1 < number && indices[attribute + 1] == i) ++attribute;
    *failed = i;
    if (sizes[i] == 0) return CUDA_ERROR_INVALID_VALUE;
    status = CopyOne(dsts[i], srcs[i], sizes[i], attrs[attribute].srcAccessOrder, stream);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

// An operand in memory, as one side of a box; elements are bytes. False: it is an array.
bool AsSide(const CUmemcpy3DOperand& operand, const CUextent3D& extent, CUdeviceptr* address,
            size_t* pitch, size_t* height) {
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return false;
  *address = operand.op.ptr.ptr;
  *pitch = operand.op.ptr.rowLength == 0 ? extent.width : operand.op.ptr.rowLength;
  *height = operand.op.ptr.layerHeight == 0 ? extent.height : operand.op.ptr.layerHeight;
  return true;
}

CUresult CopyBox(const CUDA_MEMCPY3D_BATCH_OP& op, CUstream stream) {
  if (!IsAccessOrder(op.srcAccessOrder) || op.extent.width == 0 || op.extent.height == 0 ||
      op.extent.depth == 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  if (!AsSide(op.src, op.extent, &box.srcDevice, &box.srcPitch, &box.srcHeight) ||
      !AsSide(op.dst, op.extent, &box.dstDevice, &box.dstPitch, &box.dstHeight))
    return NotSupported(CallId::cuMemcpy3DBatchAsync_v2);
  box.WidthInBytes = op.extent.width;
  box.Height = op.extent.height;
  box.Depth = op.extent.depth;
  return Call_cuMemcpy3DAsync_v2(&box, stream);
}

CUresult CopyBoxes(size_t count, CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                   size_t* failed, CUstream stream) {
  *failed = SIZE_MAX;
  CUresult status = CheckBatchStream(stream);
  if (status != CUDA_SUCCESS) return status;
  if (count == 0 || list == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    status = CopyBox(list[i], stream);
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

// All addresses of a session mean the same in all its contexts.
CUDA_MEMCPY3D WithoutContexts(const CUDA_MEMCPY3D_PEER& copy) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = copy.srcXInBytes;
  box.srcY = copy.srcY;
  box.srcZ = copy.srcZ;
  box.srcLOD = copy.srcLOD;
  box.srcMemoryType = copy.srcMemoryType;
  box.srcHost = copy.srcHost;
  box.srcDevice = copy.srcDevice;
  box.srcArray = copy.srcArray;
  box.srcPitch = copy.srcPitch;
  box.srcHeight = copy.srcHeight;
  box.dstXInBytes = copy.dstXInBytes;
  box.dstY = copy.dstY;
  box.dstZ = copy.dstZ;
  box.dstLOD = copy.dstLOD;
  box.dstMemoryType = copy.dstMemoryType;
  box.dstHost = copy.dstHost;
  box.dstDevice = copy.dstDevice;
  box.dstArray = copy.dstArray;
  box.dstPitch = copy.dstPitch;
  box.dstHeight = copy.dstHeight;
  box.WidthInBytes = copy.WidthInBytes;
  box.Height = copy.Height;
  box.Depth = copy.Depth;
  return box;
}

CUresult CheckContexts(const CUDA_MEMCPY3D_PEER* copy) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return FindContext(copy->srcContext) == nullptr || FindContext(copy->dstContext) == nullptr
             ? CUDA_ERROR_INVALID_CONTEXT
             : CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                 CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                 size_t* failIdx, CUstream hStream) {
  size_t failed = 0;
  CUresult status =
      CopyBatch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, &failed, hStream);
  if (status != CUDA_SUCCESS && failIdx != nullptr) *failIdx = failed;
  return status;
}

CUresult Call_cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes,
                                    size_t count, CUmemcpyAttributes* attrs, size_t* attrsIdxs,
                                    size_t numAttrs, CUstream hStream) {
  return Call_cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, nullptr,
                                 hStream);
}

CUresult Call_cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                   unsigned long long flags, CUstream hStream) {
  size_t failed = 0;
  CUresult status = CopyBoxes(numOps, opList, flags, &failed, hStream);
  if (status != CUDA_SUCCESS && failIdx != nullptr) *failIdx = failed;
  return status;
}

CUresult Call_cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList,
                                      unsigned long long flags, CUstream hStream) {
  return Call_cuMemcpy3DBatchAsync(numOps, opList, nullptr, flags, hStream);
}

CUresult Call_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
  CUresult status = CheckContexts(pCopy);
  if (status != CUDA_SUCCESS) return status;
  CUDA_MEMCPY3D box = WithoutContexts(*pCopy);
  return Call_cuMemcpy3DAsync_v2(&box, hStream);
}

CUresult Call_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy, CUstream default_stream) {
  CUresult status = CheckContexts(pCopy);
  if (status != CUDA_SUCCESS) return status;
  CUDA_MEMCPY3D box = WithoutContexts(*pCopy);
  return Call_cuMemcpy3D_v2(&box, default_stream);
}

}  // namespace farcall::client
