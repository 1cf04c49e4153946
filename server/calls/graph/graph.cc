// SPDX-License-Identifier: Apache-2.0
// Graphs: nodes and edges as the client made them, and what a capture made, told to it. The partner
// is client-shim/cuda/state/graph_model.cc.
#include "server/calls/graph/graph.h"

#include <algorithm>
#include <cstring>

#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

constexpr uint64_t kNoPlace = ~uint64_t{0};

CUgraphEdgeData EdgeData(uint64_t bits) {
  CUgraphEdgeData data;
  static_assert(sizeof(data) == sizeof(bits));
  std::memcpy(&data, &bits, sizeof(data));
  return data;
}

uint64_t Bits(const CUgraphEdgeData& data) {
  uint64_t bits = 0;
  std::memcpy(&bits, &data, sizeof(bits));
  return bits;
}

// Edges with and without what they carry, by what the driver has.
CUresult ChangeEdges(ServeCall& call, CUgraph graph, const GraphEdges& edges, bool add) {
  const DriverApi& api = call.api;
  auto with_data = add ? api.cuGraphAddDependencies_v2 : api.cuGraphRemoveDependencies_v2;
  auto plain = add ? api.cuGraphAddDependencies : api.cuGraphRemoveDependencies;
  size_t count = edges.from.size();
  if (with_data != nullptr)
    return with_data(graph, edges.from.data(), edges.to.data(), edges.data.data(), count);
  if (plain == nullptr || !Plain(edges.data)) return CUDA_ERROR_NOT_SUPPORTED;
  return plain(graph, edges.from.data(), edges.to.data(), count);
}

Status ServeChangedEdges(ServeCall& call, bool add) {
  auto wire = call.in.Get<uint64_t>();
  GraphEdges edges = DecodeEdges(call, true);
  if (!call.in.Done()) return call.Malformed("body");
  auto graph = call.Resolve<CUgraph>(HandleKind::kGraph, wire);
  if (!call.ready()) return call.RejectStatus();
  call.result = ChangeEdges(call, graph, edges, add);
  return {};
}

CUresult AddNode(ServeCall& call, CUgraph graph, const GraphEdges& edges, CUgraphNodeParams* params,
                 CUgraphNode* made) {
  const DriverApi& api = call.api;
  size_t count = edges.from.size();
  if (api.cuGraphAddNode_v2 != nullptr)
    return api.cuGraphAddNode_v2(made, graph, edges.from.data(), edges.data.data(), count, params);
  if (api.cuGraphAddNode == nullptr || !Plain(edges.data)) return CUDA_ERROR_NOT_SUPPORTED;
  return api.cuGraphAddNode(made, graph, edges.from.data(), count, params);
}

CUresult ListNodes(ServeCall& call, CUgraph graph, std::vector<CUgraphNode>* nodes) {
  size_t count = 0;
  CUresult result = call.api.cuGraphGetNodes(graph, nullptr, &count);
  nodes->resize(count);
  if (result == CUDA_SUCCESS && count != 0)
    result = call.api.cuGraphGetNodes(graph, nodes->data(), &count);
  return result;
}

CUresult ListEdges(ServeCall& call, CUgraph graph, GraphEdges* edges) {
  const DriverApi& api = call.api;
  bool with_data = api.cuGraphGetEdges_v2 != nullptr;
  size_t count = 0;
  CUresult result = with_data ? api.cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count)
                              : api.cuGraphGetEdges(graph, nullptr, nullptr, &count);
  edges->from.resize(count);
  edges->to.resize(count);
  edges->data.resize(count);
  if (result != CUDA_SUCCESS || count == 0) return result;
  return with_data ? api.cuGraphGetEdges_v2(graph, edges->from.data(), edges->to.data(),
                                            edges->data.data(), &count)
                   : api.cuGraphGetEdges(graph, edges->from.data(), edges->to.data(), &count);
}

bool Distinct(std::vector<uint64_t> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) == names.end();
}

using Places = std::unordered_map<CUgraphNode, uint64_t>;

uint64_t PlaceOf(const Places& places, CUgraphNode node) {
  auto found = places.find(node);
  return found == places.end() ? kNoPlace : found->second;
}

// {count, {u64 name or 0, u32 type}}, {count, {u64 from place, u64 to place, u64 edge data}},
// {count, {u64 place of the frontier's node, u64 edge data}}
CUresult EncodeListing(ServeCall& call, GraphState& graph, StreamState* stream) {
  std::vector<CUgraphNode> nodes;
  GraphEdges edges, frontier;
  CUresult result = ListNodes(call, graph.native, &nodes);
  if (result == CUDA_SUCCESS) result = ListEdges(call, graph.native, &edges);
  CUgraph captured = nullptr;
  if (result == CUDA_SUCCESS && stream != nullptr)
    result = Frontier(call, stream->native, &captured, &frontier);
  if (result != CUDA_SUCCESS) return result;
  Places places;
  graph.listed.clear();
  call.out.Put<uint64_t>(nodes.size());
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    result = call.api.cuGraphNodeGetType(node, &type);
    auto name = graph.names.find(node);
    if (name == graph.names.end()) graph.listed.push_back(node);
    places.emplace(node, places.size());
    call.out.Put<uint64_t>(name == graph.names.end() ? 0 : name->second);
    call.out.Put<uint32_t>(type);
  }
  call.out.Put<uint64_t>(edges.from.size());
  for (size_t i = 0; i < edges.from.size(); ++i) {
    call.out.Put<uint64_t>(PlaceOf(places, edges.from[i]));
    call.out.Put<uint64_t>(PlaceOf(places, edges.to[i]));
    call.out.Put<uint64_t>(Bits(edges.data[i]));
  }
  call.out.Put<uint64_t>(frontier.from.size());
  for (size_t i = 0; i < frontier.from.size(); ++i) {
    call.out.Put<uint64_t>(PlaceOf(places, frontier.from[i]));
    call.out.Put<uint64_t>(Bits(frontier.data[i]));
  }
  return result;
}

}  // namespace

bool Plain(const std::vector<CUgraphEdgeData>& data) {
  for (const CUgraphEdgeData& one : data)
    if (Bits(one) != 0) return false;
  return true;
}

GraphEdges DecodeEdges(ServeCall& call, bool both_ends) {
  GraphEdges edges;
  size_t count = call.in.GetCount(both_ends ? 24 : 16);
  for (size_t i = 0; i < count; ++i) {
    auto from = call.in.Get<uint64_t>();
    auto to = both_ends ? call.in.Get<uint64_t>() : 0;
    auto data = call.in.Get<uint64_t>();
    edges.from.push_back(call.Resolve<CUgraphNode>(HandleKind::kGraphNode, from));
    if (both_ends) edges.to.push_back(call.Resolve<CUgraphNode>(HandleKind::kGraphNode, to));
    edges.data.push_back(EdgeData(data));
  }
  return edges;
}

Status Serve_cuGraphDestroy(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  GraphState* graph = FindGraph(call, wire);
  if (!call.ready()) return call.RejectStatus();
  if (graph->inner || graph->capturing)
    return call.Malformed("a graph that is not the client's to destroy");
  CUgraph native = graph->native;
  ForgetGraph(call.session, wire);
  call.result = call.api.cuGraphDestroy(native);
  return {};
}

Status Serve_cuGraphAddNode_v2(ServeCall& call) {
  auto wire_node = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  NodeParams params;
  if (!DecodeParams(call, &params)) return call.Malformed("a node's parameters");
  GraphEdges edges = DecodeEdges(call, false);
  if (!call.in.Done() || !Distinct(params.new_graphs)) return call.Malformed("body");
  ResolveParams(call, &params);
  GraphState* graph = FindGraph(call, wire_graph);
  StreamState* stream = wire_stream == 0 ? nullptr : call.FindStream(wire_stream);
  call.CheckNew(HandleKind::kGraphNode, wire_node);
  for (uint64_t inner : params.new_graphs) call.CheckNew(HandleKind::kGraph, inner);
  if (!call.ready()) return call.RejectStatus();
  CUgraph captured = graph->native;
  if (stream != nullptr) {
    call.result = Frontier(call, stream->native, &captured, &edges);
    if (call.result == CUDA_SUCCESS && captured != graph->native)
      return call.Malformed("a graph that the stream does not capture");
  }
  CUgraphNode made = nullptr;
  if (call.result == CUDA_SUCCESS)
    call.result = AddNode(call, graph->native, edges, &params.native, &made);
  if (call.result != CUDA_SUCCESS) return {};
  CUgraph* bodies = params.native.conditional.phGraph_out;
  if (!params.new_graphs.empty() && bodies == nullptr) {
    call.result = CUDA_ERROR_UNKNOWN;
    return {};
  }
  NameNode(call, wire_graph, graph, wire_node, made, params.new_graphs);
  for (size_t i = 0; i < params.new_graphs.size(); ++i)
    NameInnerGraph(call, params.new_graphs[i], bodies[i]);
  if (stream != nullptr) {
    call.result = MoveFrontier(call, stream->native, {{made}, {}, {CUgraphEdgeData{}}},
                               CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  }
  return {};
}

Status Serve_cuGraphNodeSetParams(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  NodeParams params;
  if (!DecodeParams(call, &params) || !call.in.Done() || !params.new_graphs.empty())
    return call.Malformed("body");
  ResolveParams(call, &params);
  auto node = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire);
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuGraphNodeSetParams == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : call.api.cuGraphNodeSetParams(node, &params.native);
  return {};
}

Status Serve_cuGraphExecNodeSetParams(ServeCall& call) {
  auto wire_exec = call.in.Get<uint64_t>();
  auto wire_node = call.in.Get<uint64_t>();
  NodeParams params;
  if (!DecodeParams(call, &params) || !call.in.Done() || !params.new_graphs.empty())
    return call.Malformed("body");
  ResolveParams(call, &params);
  auto exec = call.Resolve<CUgraphExec>(HandleKind::kGraphExec, wire_exec);
  auto node = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire_node);
  if (!call.ready()) return call.RejectStatus();
  call.result = call.api.cuGraphExecNodeSetParams == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : call.api.cuGraphExecNodeSetParams(exec, node, &params.native);
  return {};
}

Status Serve_cuGraphAddDependencies_v2(ServeCall& call) {
  return ServeChangedEdges(call, true);
}

Status Serve_cuGraphRemoveDependencies_v2(ServeCall& call) {
  return ServeChangedEdges(call, false);
}

Status Serve_cuGraphDestroyNode(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire);
  auto* node = static_cast<GraphNodeState*>(call.ResolveExtra(HandleKind::kGraphNode, wire));
  if (!call.ready()) return call.RejectStatus();
  GraphState* graph = FindGraph(call, node->graph);
  call.result = call.api.cuGraphDestroyNode(native);
  if (call.result == CUDA_SUCCESS) {
    if (graph != nullptr) {
      graph->names.erase(native);
      graph->listed.clear();
    }
    ForgetNode(call.session, wire);
  }
  return {};
}

Status Serve_cuGraphNodeFindInClone(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_original = call.in.Get<uint64_t>();
  auto wire_clone = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto original = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire_original);
  GraphState* clone = FindGraph(call, wire_clone);
  call.CheckNew(HandleKind::kGraphNode, wire);
  if (!call.ready()) return call.RejectStatus();
  CUgraphNode found = nullptr;
  call.result = call.api.cuGraphNodeFindInClone(&found, original, clone->native);
  if (call.result == CUDA_SUCCESS && clone->names.count(found) == 0)
    NameNode(call, wire_clone, clone, wire, found);
  call.out.Put<uint64_t>(call.result == CUDA_SUCCESS ? clone->names[found] : 0);
  return {};
}

Status Serve_cuGraphChildGraphNodeGetGraph(ServeCall& call) {
  auto wire_node = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto native = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire_node);
  auto* node = static_cast<GraphNodeState*>(call.ResolveExtra(HandleKind::kGraphNode, wire_node));
  call.CheckNew(HandleKind::kGraph, wire_graph);
  if (!call.ready()) return call.RejectStatus();
  CUgraph inner = nullptr;
  call.result = call.api.cuGraphChildGraphNodeGetGraph(native, &inner);
  if (call.result == CUDA_SUCCESS) {
    NameInnerGraph(call, wire_graph, inner);
    node->inner.push_back(wire_graph);
  }
  return {};
}

// Names for what was listed last, in its order; then, if a reply is wanted, the list as it is now.
Status Serve_cuGraphGetNodes(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  auto wire_stream = call.in.Get<uint64_t>();
  size_t count = call.in.GetCount(8);
  std::vector<uint64_t> names;
  for (size_t i = 0; i < count; ++i) names.push_back(call.in.Get<uint64_t>());
  if (!call.in.Done() || !Distinct(names)) return call.Malformed("body");
  GraphState* graph = FindGraph(call, wire);
  StreamState* stream = wire_stream == 0 ? nullptr : call.FindStream(wire_stream);
  if (call.ready() && count > graph->listed.size()) return call.Malformed("more names than nodes");
  for (uint64_t name : names) call.CheckNew(HandleKind::kGraphNode, name);
  if (!call.ready()) return call.RejectStatus();
  for (size_t i = 0; i < count; ++i)
    if (graph->names.count(graph->listed[i]) == 0)
      NameNode(call, wire, graph, names[i], graph->listed[i]);
  graph->listed.erase(graph->listed.begin(), graph->listed.begin() + static_cast<long>(count));
  if ((call.header.flags & kWantReply) != 0) call.result = EncodeListing(call, *graph, stream);
  return {};
}

Status Serve_cuGraphKernelNodeGetParams_v2(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto node = call.Resolve<CUgraphNode>(HandleKind::kGraphNode, wire);
  if (!call.ready()) return call.RejectStatus();
  EncodeParams(call, node);
  return {};
}

// {i32 result, u64 place of the node, u64 place of the one it does not match}, places as listed.
Status Serve_cuGraphExecUpdate_v2(ServeCall& call) {
  auto wire_exec = call.in.Get<uint64_t>();
  auto wire_graph = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto exec = call.Resolve<CUgraphExec>(HandleKind::kGraphExec, wire_exec);
  GraphState* graph = FindGraph(call, wire_graph);
  if (!call.ready()) return call.RejectStatus();
  CUgraphExecUpdateResultInfo info{};
  CUresult updated = call.api.cuGraphExecUpdate_v2(exec, graph->native, &info);
  std::vector<CUgraphNode> nodes;
  Places places;
  if (updated != CUDA_SUCCESS && ListNodes(call, graph->native, &nodes) == CUDA_SUCCESS)
    for (CUgraphNode node : nodes) places.emplace(node, places.size());
  call.out.Put<int32_t>(updated);
  call.out.Put<int32_t>(info.result);
  call.out.Put<uint64_t>(PlaceOf(places, info.errorNode));
  call.out.Put<uint64_t>(PlaceOf(places, info.errorFromNode));
  return {};
}

}  // namespace farcall::server
