// SPDX-License-Identifier: Apache-2.0
// Generated from cuda.h and codegen/spec/cuda/: encode, send, decode. Partner: server/cuda_calls.cc.
#include "generated/client/calls.h"

#include <string_view>

#include "client-shim/core/roles.h"
#include "client-shim/core/session/session_face.h"
#include "generated/proto/cuda_structs.h"

namespace farcall::client {

CUresult RoundTrip_cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  if (pvalue == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  BodyRoom room;
  Writer body(room);
  body.Put<int32_t>(static_cast<int32_t>(limit));
  Reply reply;
  const CUresult error = Query(CallId::cuCtxGetLimit, Written(room, body), &reply);
  if (error != CUDA_SUCCESS) { return error; }
  Reader outputs = reply.outputs();
  const auto out_pvalue = outputs.Get<uint64_t>();
  if (!outputs.Done()) { return CUDA_ERROR_UNKNOWN; }
  *pvalue = out_pvalue;
  return CUDA_SUCCESS;
}

CUresult RoundTrip_cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  Reply reply;
  const CUresult error = Query(CallId::cuCtxGetStreamPriorityRange, {}, &reply);
  if (error != CUDA_SUCCESS) { return error; }
  Reader outputs = reply.outputs();
  const auto out_leastPriority = outputs.Get<int32_t>();
  const auto out_greatestPriority = outputs.Get<int32_t>();
  if (!outputs.Done()) { return CUDA_ERROR_UNKNOWN; }
  if (leastPriority != nullptr) { *leastPriority = out_leastPriority; }
  if (greatestPriority != nullptr) { *greatestPriority = out_greatestPriority; }
  return CUDA_SUCCESS;
}

CUresult Post_cuProfilerStart() {
  return Post(CallId::cuProfilerStart, {});
}

CUresult Post_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  CUresult error = CUDA_SUCCESS;
  const uint64_t wire_dstDevice = AddressOnDevice(dstDevice);
  if (!HoldsMemory(wire_dstDevice, ByteCount)) { return CUDA_ERROR_INVALID_VALUE; }
  const uint64_t wire_srcDevice = AddressOnDevice(srcDevice);
  if (!HoldsMemory(wire_srcDevice, ByteCount)) { return CUDA_ERROR_INVALID_VALUE; }
  const uint64_t wire_hStream = WireStream(hStream, false, &error);
  if (error != CUDA_SUCCESS) { return error; }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(wire_dstDevice);
  body.Put<uint64_t>(wire_srcDevice);
  body.Put<uint64_t>(ByteCount);
  body.Put<uint64_t>(wire_hStream);
  return Post(CallId::cuMemcpyDtoDAsync_v2, Written(room, body));
}

CUresult Post_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us,
                                 size_t Width, size_t Height, CUstream hStream) {
  CUresult error = CUDA_SUCCESS;
  const uint64_t wire_dstDevice = AddressOnDevice(dstDevice);
  if (!HoldsMemory(wire_dstDevice, Pitched(dstPitch, Product(Width, 2), Height)) || dstDevice % 2 != 0) { return CUDA_ERROR_INVALID_VALUE; }
  if (Height > 1 && (dstPitch < Product(Width, 2) || dstPitch % 2 != 0)) { return CUDA_ERROR_INVALID_VALUE; }
  const uint64_t wire_hStream = WireStream(hStream, false, &error);
  if (error != CUDA_SUCCESS) { return error; }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(wire_dstDevice);
  body.Put<uint64_t>(dstPitch);
  body.Put<uint16_t>(us);
  body.Put<uint64_t>(Width);
  body.Put<uint64_t>(Height);
  body.Put<uint64_t>(wire_hStream);
  return Post(CallId::cuMemsetD2D16Async, Written(room, body));
}

CUresult Post_cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  CUresult error = CUDA_SUCCESS;
  if (phStream == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  const uint64_t wire_phStream = NewHandle(HandleKind::kStream, &error);
  if (error != CUDA_SUCCESS) { return error; }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(wire_phStream);
  body.Put<uint32_t>(flags);
  body.Put<int32_t>(priority);
  error = Post(CallId::cuStreamCreateWithPriority, Written(room, body));
  if (error != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kStream, wire_phStream);
    return error;
  }
  *phStream = reinterpret_cast<CUstream>(wire_phStream);
  return CUDA_SUCCESS;
}

CUresult Post_cuStreamDestroy_v2(CUstream hStream) {
  CUresult error = CUDA_SUCCESS;
  if (!IsHandle(hStream, HandleKind::kStream)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(WireHandle(hStream));
  error = Post(CallId::cuStreamDestroy_v2, Written(room, body));
  FreeHandle(HandleKind::kStream, WireHandle(hStream));
  return error;
}

CUresult Post_cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  CUresult error = CUDA_SUCCESS;
  if (pFunc == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  if (!IsHandle(kernel, HandleKind::kKernel)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  const uint64_t wire_pFunc = NewHandle(HandleKind::kFunction, &error);
  if (error != CUDA_SUCCESS) { return error; }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(wire_pFunc);
  body.Put<uint64_t>(WireHandle(kernel));
  error = Post(CallId::cuKernelGetFunction, Written(room, body));
  if (error != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kFunction, wire_pFunc);
    return error;
  }
  *pFunc = reinterpret_cast<CUfunction>(wire_pFunc);
  return CUDA_SUCCESS;
}

CUresult RoundTrip_cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize) {
  if (numBlocks == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  if (!IsHandle(func, HandleKind::kFunction, HandleKind::kKernel)) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  BodyRoom room;
  Writer body(room);
  body.Put<uint64_t>(WireHandle(func));
  body.Put<int32_t>(blockSize);
  body.Put<uint64_t>(dynamicSMemSize);
  Reply reply;
  const CUresult error = Query(CallId::cuOccupancyMaxActiveBlocksPerMultiprocessor,
                               Written(room, body), &reply);
  if (error != CUDA_SUCCESS) { return error; }
  Reader outputs = reply.outputs();
  const auto out_numBlocks = outputs.Get<int32_t>();
  if (!outputs.Done()) { return CUDA_ERROR_UNKNOWN; }
  *numBlocks = out_numBlocks;
  return CUDA_SUCCESS;
}

CUresult RoundTrip_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                                        const CUstreamAttrValue* param) {
  CUresult error = CUDA_SUCCESS;
  const uint64_t wire_hStream = WireStream(hStream, false, &error);
  if (error != CUDA_SUCCESS) { return error; }
  if (param == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  Builder body;
  body.Put<uint64_t>(wire_hStream);
  body.Put<int32_t>(static_cast<int32_t>(attr));
  if (!Encode(body, attr, *param)) { return CUDA_ERROR_NOT_SUPPORTED; }
  Reply reply;
  return RoundTrip(CallId::cuStreamSetAttribute, body.bytes(), &reply);
}

CUresult RoundTrip_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                        CUgraphExecUpdateResultInfo* resultInfo) {
  Reply reply;
  return RoundTrip(CallId::cuGraphExecUpdate_v2, {}, &reply);
}

CUresult RoundTrip_cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies, size_t numDependencies) {
  Reply reply;
  return RoundTrip(CallId::cuGraphAddEmptyNode, {}, &reply);
}

}  // namespace farcall::client
