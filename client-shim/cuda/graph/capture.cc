// SPDX-License-Identifier: Apache-2.0
// Capture state and instantiation. The server always captures relaxed; which calls a capture
// forbids is decided here.
#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/capture_rules.h"
#include "client-shim/cuda/state/captured.h"
#include "client-shim/cuda/state/graph_model.h"
#include "client-shim/cuda/state/stream.h"
#include "generated/client/calls.h"

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

namespace {

// What a stream must be to begin a capture.
CUresult MayBegin(CUstream hStream, CUstreamCaptureMode mode, Stream** stream) {
  *stream = FindStream(hStream);
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  if (*stream == nullptr) {
    CUresult error = CUDA_SUCCESS;
    WireStream(hStream, false, &error);
    return error == CUDA_SUCCESS ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : error;
  }
  return (*stream)->capture.load() != CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_ERROR_ILLEGAL_STATE
                                                                    : CUDA_SUCCESS;
}

// What the stream's next node stands on, handed out until the thread asks again.
struct HandedOut {
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> edges;
};
HandedOut* Handed() {
  static thread_local HandedOut* handed = new HandedOut;
  return handed;
}

struct InfoWanted {
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  size_t* count = nullptr;
};

CUresult GiveInfo(CUstream hStream, const InfoWanted& wanted, bool with_edges) {
  Stream* stream = FindStream(hStream);
  uint64_t handle = stream->capture_graph.load();
  if (wanted.graph != nullptr) *wanted.graph = AsHandle<CUgraph>(handle);
  if (wanted.nodes == nullptr && wanted.edges == nullptr && wanted.count == nullptr)
    return CUDA_SUCCESS;
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(AsHandle<CUgraph>(handle));
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(hStream, false, &status);
  Frontier frontier;
  if (status == CUDA_SUCCESS) status = Learn(graph.get(), wire, &frontier, nullptr);
  if (status != CUDA_SUCCESS) return status;
  HandedOut* handed = Handed();
  handed->nodes.clear();
  handed->edges.clear();
  bool plain = true;
  for (size_t i = 0; i < frontier.nodes.size(); ++i) {
    handed->nodes.push_back(AsHandle<CUgraphNode>(frontier.nodes[i]->handle));
    handed->edges.push_back(EdgeOf(frontier.data[i]));
    plain = plain && frontier.data[i] == 0;
  }
  if (!plain && (!with_edges || wanted.edges == nullptr)) return CUDA_ERROR_LOSSY_QUERY;
  if (wanted.nodes != nullptr) *wanted.nodes = handed->nodes.data();
  if (wanted.edges != nullptr) *wanted.edges = plain ? nullptr : handed->edges.data();
  if (wanted.count != nullptr) *wanted.count = handed->nodes.size();
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(CUstream hStream, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                            size_t count, unsigned flags) {
  CUresult status = CUDA_SUCCESS;
  uint64_t wire = WireStream(hStream, false, &status);
  if (status != CUDA_SUCCESS) return status;
  Stream* stream = FindStream(hStream);
  if (!Captures(stream)) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->capture.load() != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(AsHandle<CUgraph>(stream->capture_graph.load()));
  std::vector<GraphEdge> edges;
  if (graph == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  status = ResolveEdges(*graph, nodes, data, count, &edges);
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  body.Put<uint64_t>(wire);
  body.Put<uint32_t>(flags);
  PutEdges(&body, edges);
  return PostGraph(CallId::cuStreamUpdateCaptureDependencies_v2, body);
}

}  // namespace

CUresult Call_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
  Stream* stream = nullptr;
  CUresult status = MayBegin(hStream, mode, &stream);
  if (status != CUDA_SUCCESS) return status;
  uint64_t wire = WireStream(hStream, false, &status);
  uint64_t handle = NewHandle(HandleKind::kGraph, &status);
  if (status != CUDA_SUCCESS) return status;
  auto lock = LockGraphs();
  Builder body;
  body.Put<uint64_t>(wire);
  body.Put<uint64_t>(handle);
  status = PostGraph(CallId::cuStreamBeginCapture_v2, body);
  if (status != CUDA_SUCCESS) {
    FreeHandle(HandleKind::kGraph, handle);
    return status;
  }
  std::shared_ptr<Graph> graph = KeepGraph(handle);
  graph->known = false;
  graph->capturing = true;
  BeginCapture(stream, mode, handle, true);
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                          const CUgraphNode* dependencies,
                                          const CUgraphEdgeData* dependencyData,
                                          size_t numDependencies, CUstreamCaptureMode mode) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  std::vector<GraphEdge> edges;
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = ResolveEdges(*graph, dependencies, dependencyData, numDependencies, &edges);
  if (status != CUDA_SUCCESS) return status;
  Stream* stream = nullptr;
  status = MayBegin(hStream, mode, &stream);
  if (status != CUDA_SUCCESS) return status;
  if (graph->capturing) return CUDA_ERROR_ILLEGAL_STATE;
  Builder body;
  body.Put<uint64_t>(WireStream(hStream, false, &status));
  body.Put<uint64_t>(graph->handle);
  PutEdges(&body, edges);
  status = PostGraph(CallId::cuStreamBeginCaptureToGraph, body);
  if (status != CUDA_SUCCESS) return status;
  graph->known = false;
  graph->capturing = true;
  BeginCapture(stream, mode, graph->handle, false);
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  Stream* stream = FindStream(hStream);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  // Who captured into a graph of its own has it already.
  if (phGraph == nullptr && OwnsGraph(stream)) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = MayEndCapture(stream);
  if (status != CUDA_SUCCESS) return status;
  if (phGraph != nullptr) *phGraph = nullptr;
  uint64_t graph = stream->capture_graph.load();
  FixedBody<16> body;
  body.Put<uint64_t>(WireStream(hStream, false, &status));
  body.Put<uint64_t>(graph);
  status = RoundTrip(CallId::cuStreamEndCapture, body.bytes(), nullptr);
  bool owned = true;
  if (!EndCapture(stream, &owned)) {
    // The server's graph holds what was captured before the refused call: nobody may see it.
    ForgetCaptured(graph, owned, status == CUDA_SUCCESS);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (status != CUDA_SUCCESS) {
    ForgetCaptured(graph, owned, false);
    return status;
  }
  auto lock = LockGraphs();
  std::shared_ptr<Graph> made = FindGraph(AsHandle<CUgraph>(graph));
  if (made == nullptr) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  made->capturing = false;
  if (phGraph != nullptr) *phGraph = AsHandle<CUgraph>(graph);
  return CUDA_SUCCESS;
}

CUresult Call_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies,
                                                size_t numDependencies, unsigned int flags) {
  return UpdateDependencies(hStream, dependencies, nullptr, numDependencies, flags);
}

CUresult Call_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                   const CUgraphEdgeData* dependencyData,
                                                   size_t numDependencies, unsigned int flags) {
  return UpdateDependencies(hStream, dependencies, dependencyData, numDependencies, flags);
}

CUresult Call_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return State(hStream, captureStatus, nullptr);
}

CUresult Call_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                     cuuint64_t* id_out) {
  return State(hStream, captureStatus_out, id_out);
}

CUresult Call_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        size_t* numDependencies_out) {
  CUresult status = State(hStream, captureStatus_out, id_out);
  if (status != CUDA_SUCCESS || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return status;
  return GiveInfo(hStream, {graph_out, dependencies_out, nullptr, numDependencies_out}, false);
}

CUresult Call_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                        cuuint64_t* id_out, CUgraph* graph_out,
                                        const CUgraphNode** dependencies_out,
                                        const CUgraphEdgeData** edgeData_out,
                                        size_t* numDependencies_out) {
  CUresult status = State(hStream, captureStatus_out, id_out);
  if (edgeData_out != nullptr) *edgeData_out = nullptr;
  if (status != CUDA_SUCCESS || *captureStatus_out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return status;
  return GiveInfo(hStream, {graph_out, dependencies_out, edgeData_out, numDependencies_out}, true);
}

CUresult Call_cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph,
                                    CUgraphNode* phErrorNode, char* logBuffer, size_t bufferSize) {
  if (phErrorNode != nullptr) *phErrorNode = nullptr;
  if (logBuffer != nullptr && bufferSize != 0) *logBuffer = '\0';
  return Call_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
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
  CUresult status = Call_cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags);
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

}  // namespace farcall::client
