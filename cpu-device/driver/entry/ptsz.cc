// SPDX-License-Identifier: Apache-2.0
// The per-thread-default-stream entries of calls that differ in nothing else.
#include "cpu-device/driver/base/api.h"

using farcall::cpu_device::Ptsz;

extern "C" {

CUresult cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return cuStreamGetPriority(Ptsz(stream), priority);
}
CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int* flags) {
  return cuStreamGetFlags(Ptsz(stream), flags);
}
CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return cuStreamGetId(Ptsz(stream), id);
}
CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return cuStreamGetDevice(Ptsz(stream), device);
}
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx(Ptsz(stream), context);
}
CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context, CUgreenCtx* green) {
  return cuStreamGetCtx_v2(Ptsz(stream), context, green);
}
CUresult cuStreamQuery_ptsz(CUstream stream) {
  return cuStreamQuery(Ptsz(stream));
}
CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return cuStreamSynchronize(Ptsz(stream));
}
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(Ptsz(stream), event, flags);
}
CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void* user_data,
                                  unsigned int flags) {
  return cuStreamAddCallback(Ptsz(stream), callback, user_data, flags);
}
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* user_data) {
  return cuLaunchHostFunc(Ptsz(stream), function, user_data);
}
CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address, size_t bytes,
                                     unsigned int flags) {
  return cuStreamAttachMemAsync(Ptsz(stream), address, bytes, flags);
}
CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from) {
  return cuStreamCopyAttributes(Ptsz(to), Ptsz(from));
}
CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   CUstreamAttrValue* value) {
  return cuStreamGetAttribute(Ptsz(stream), attribute, value);
}
CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                   const CUstreamAttrValue* value) {
  return cuStreamSetAttribute(Ptsz(stream), attribute, value);
}
CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
  return cuStreamBeginCapture(Ptsz(stream));
}
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return cuEventRecord(event, Ptsz(stream));
}
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) {
  return cuEventRecordWithFlags(event, Ptsz(stream), flags);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return cuMemAllocAsync(out, bytes, Ptsz(stream));
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
  return cuMemAllocFromPoolAsync(out, bytes, pool, Ptsz(stream));
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return cuMemFreeAsync(address, Ptsz(stream));
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                      unsigned int flags) {
  return cuStreamWriteValue32_v2(Ptsz(stream), address, value, flags);
}
CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned int flags) {
  return cuStreamWriteValue64_v2(Ptsz(stream), address, value, flags);
}
CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                     unsigned int flags) {
  return cuStreamWaitValue32_v2(Ptsz(stream), address, value, flags);
}
CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                     unsigned int flags) {
  return cuStreamWaitValue64_v2(Ptsz(stream), address, value, flags);
}
CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                    CUstreamBatchMemOpParams* ops, unsigned int flags) {
  return cuStreamBatchMemOp_v2(Ptsz(stream), count, ops, flags);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return cuStreamBeginCapture_v2(Ptsz(stream), mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* edges, size_t count,
                                          CUstreamCaptureMode mode) {
  return cuStreamBeginCaptureToGraph(Ptsz(stream), graph, dependencies, edges, count, mode);
}
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return cuStreamEndCapture(Ptsz(stream), graph);
}
CUresult cuStreamIsCapturing_ptsz(CUstream stream, CUstreamCaptureStatus* status) {
  return cuStreamIsCapturing(Ptsz(stream), status);
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies, size_t* count) {
  return cuStreamGetCaptureInfo_v2(Ptsz(stream), status, id, graph, dependencies, count);
}
CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus* status,
                                        cuuint64_t* id, CUgraph* graph,
                                        const CUgraphNode** dependencies,
                                        const CUgraphEdgeData** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v3(Ptsz(stream), status, id, graph, dependencies, edges, count);
}
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode* dependencies,
                                                size_t count, unsigned int flags) {
  return cuStreamUpdateCaptureDependencies(Ptsz(stream), dependencies, count, flags);
}
CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* edges, size_t count,
                                                   unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(Ptsz(stream), dependencies, edges, count, flags);
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphUpload(exec, Ptsz(stream));
}
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return cuGraphLaunch(exec, Ptsz(stream));
}

}  // extern "C"
