// SPDX-License-Identifier: Apache-2.0
// Captures: streams that become graphs. The partner is client-shim/cuda/graph/capture.cc.
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/calls/graph/graph.h"
#include "server/state/session.h"

namespace farcall::server {

CUresult MoveFrontier(ServeCall& call, CUstream stream, const GraphEdges& edges, unsigned flags) {
  auto* nodes = const_cast<CUgraphNode*>(edges.from.data());
  if (call.api.cuStreamUpdateCaptureDependencies_v2 != nullptr) {
    return call.api.cuStreamUpdateCaptureDependencies_v2(stream, nodes, edges.data.data(),
                                                         edges.from.size(), flags);
  }
  if (call.api.cuStreamUpdateCaptureDependencies == nullptr || !Plain(edges.data))
    return CUDA_ERROR_NOT_SUPPORTED;
  return call.api.cuStreamUpdateCaptureDependencies(stream, nodes, edges.from.size(), flags);
}

CUresult Frontier(ServeCall& call, CUstream stream, CUgraph* graph, GraphEdges* edges) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* data = nullptr;
  size_t count = 0;
  cuuint64_t id = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (call.api.cuStreamGetCaptureInfo_v3 != nullptr)
    result = call.api.cuStreamGetCaptureInfo_v3(stream, &status, &id, graph, &nodes, &data, &count);
  else if (call.api.cuStreamGetCaptureInfo_v2 != nullptr)
    result = call.api.cuStreamGetCaptureInfo_v2(stream, &status, &id, graph, &nodes, &count);
  if (result != CUDA_SUCCESS) return result;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_ERROR_ILLEGAL_STATE;
  if (nodes == nullptr) count = 0;
  edges->from.assign(nodes, nodes + count);
  edges->data.assign(count, CUgraphEdgeData{});
  if (data != nullptr) edges->data.assign(data, data + count);
  return CUDA_SUCCESS;
}

Status Serve_cuStreamBeginCapture_v2(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  call.CheckNew(HandleKind::kGraph, wire_graph);
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuStreamBeginCapture_v2(stream->native, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (call.result != CUDA_SUCCESS) return {};
  CUgraph graph = nullptr;
  GraphEdges edges;
  call.result = Frontier(call, stream->native, &graph, &edges);
  if (call.result != CUDA_SUCCESS) {
    call.api.cuStreamEndCapture(stream->native, &graph);
    return {};
  }
  call.Insert(HandleKind::kGraph, wire_graph, graph);
  FindGraph(call, wire_graph)->capturing = true;
  return {};
}

Status Serve_cuStreamBeginCaptureToGraph(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  GraphEdges edges = DecodeEdges(call, false);
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  GraphState* graph = FindGraph(call, wire_graph);
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuStreamBeginCaptureToGraph == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : call.api.cuStreamBeginCaptureToGraph(
                          stream->native, graph->native, edges.from.data(), edges.data.data(),
                          edges.from.size(), CU_STREAM_CAPTURE_MODE_RELAXED);
  return {};
}

Status Serve_cuStreamEndCapture(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  GraphState* graph = FindGraph(call, wire_graph);
  if (!call.ready()) return call.RejectStatus();
  CUgraph native = nullptr;
  call.result = call.api.cuStreamEndCapture(stream->native, &native);
  if (native == graph->native) {
    graph->capturing = false;
    return {};
  }
  // The driver has thrown away what it made itself.
  if (graph->capturing) ForgetGraph(call.session, wire_graph);
  return {};
}

Status Serve_cuStreamUpdateCaptureDependencies_v2(ServeCall& call) {
  auto wire_stream = call.in.Get<uint64_t>();
  auto flags = call.in.Get<uint32_t>();
  GraphEdges edges = DecodeEdges(call, false);
  if (!call.in.Done()) return call.Malformed("body");
  StreamState* stream = call.FindStream(wire_stream);
  if (!call.ready()) return call.RejectStatus();
  call.result = MoveFrontier(call, stream->native, edges, flags);
  return {};
}

}  // namespace farcall::server
