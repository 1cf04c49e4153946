// SPDX-License-Identifier: Apache-2.0
// Capture state and instantiation. The server always captures relaxed; which calls a capture
// forbids is decided here.
#include "client-shim/core/calls.h"
#include "client-shim/cuda/capture_rules.h"
#include "client-shim/cuda/stream.h"
#include "client/calls.h"

namespace farcall::client {

namespace {

CUresult State(CUstream hStream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  CUresult error = CUDA_SUCCESS;
  WireStream(hStream, false, &error);
  if (error != CUDA_SUCCESS) return error;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = FindStream(hStream);
  *status = stream == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
                              : static_cast<CUstreamCaptureStatus>(stream->capture.load());
  if (id != nullptr && stream != nullptr) *id = stream->capture_id.load();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Call_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  Stream* stream = FindStream(hStream);
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (stream == nullptr) {
    CUresult error = CUDA_SUCCESS;
    WireStream(hStream, false, &error);
    return error == CUDA_SUCCESS ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : error;
  }
  if (stream->capture.load() != CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_ERROR_ILLEGAL_STATE;
  CUresult status = RoundTrip_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (status == CUDA_SUCCESS) BeginCapture(stream, mode);
  return status;
}

CUresult Call_cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  Stream* stream = FindStream(hStream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (phGraph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = MayEndCapture(stream);
  if (status != CUDA_SUCCESS) return status;
  *phGraph = nullptr;
  status = RoundTrip_cuStreamEndCapture(hStream, phGraph);
  if (EndCapture(stream)) return status;
  // The server's graph holds what was captured before the refused call: nobody may see it.
  if (status == CUDA_SUCCESS && *phGraph != nullptr) (void)Post_cuGraphDestroy(*phGraph);
  *phGraph = nullptr;
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult Call_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return State(hStream, captureStatus, nullptr);
}

CUresult Call_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out) {
  return State(hStream, captureStatus_out, id_out);
}

// The graph under construction and its frontier are the server's: whoever asks for them is told so.
CUresult Call_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        size_t* numDependencies_out) {
  CUresult status = State(hStream, captureStatus_out, id_out);
  if (status != CUDA_SUCCESS || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return status;
  bool wants_graph =
      graph_out != nullptr || dependencies_out != nullptr || numDependencies_out != nullptr;
  return wants_graph ? NotSupported(CallId::cuStreamGetCaptureInfo_v2) : CUDA_SUCCESS;
}

CUresult Call_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out,
                                        size_t* numDependencies_out) {
  CUresult status = State(hStream, captureStatus_out, id_out);
  if (status != CUDA_SUCCESS || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return status;
  bool wants_graph = graph_out != nullptr || dependencies_out != nullptr ||
                     edgeData_out != nullptr || numDependencies_out != nullptr;
  return wants_graph ? NotSupported(CallId::cuStreamGetCaptureInfo_v3) : CUDA_SUCCESS;
}

CUresult Call_cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph,
                                    CUgraphNode* phErrorNode, char* logBuffer, size_t bufferSize) {
  if (phErrorNode != nullptr) *phErrorNode = nullptr;
  if (logBuffer != nullptr && bufferSize != 0) *logBuffer = '\0';
  return RoundTrip_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult Call_cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams,
                                           CUstream default_stream) {
  if (instantiateParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  constexpr cuuint64_t kDeviceSide = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if ((instantiateParams->flags & kDeviceSide) != 0)
    return NotSupported(CallId::cuGraphInstantiateWithParams);
  cuuint64_t flags =
      instantiateParams->flags & ~static_cast<cuuint64_t>(CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
  CUresult status = RoundTrip_cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
  instantiateParams->hErrNode_out = nullptr;
  instantiateParams->result_out =
      status == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  if (status == CUDA_SUCCESS &&
      (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0) {
    CUstream stream = instantiateParams->hUploadStream;
    status = Post_cuGraphUpload(*phGraphExec, stream == nullptr ? default_stream : stream);
  }
  return status;
}

CUresult Call_cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return Post_cuGraphCreate(phGraph, flags);
}

CUresult Call_cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  if (numNodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) return NotSupported(CallId::cuGraphGetNodes);
  FixedBody<8> body;
  body.Put<uint64_t>(reinterpret_cast<uint64_t>(hGraph));
  Reply reply;
  CUresult status = RoundTrip(CallId::cuGraphGetNodes, body.bytes(), &reply);
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  auto count = outputs.Get<uint64_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  *numNodes = count;
  return CUDA_SUCCESS;
}

}  // namespace farcall::client
