// SPDX-License-Identifier: Apache-2.0
// Which nodes a graph has and what depends on what, answered from the model.
#include <algorithm>
#include <cstring>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/state/graph_model.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

struct ListedEdge {
  const GraphNode* from;
  const GraphNode* to;
  uint64_t data;
};

CUgraphNode HandleOf(const GraphNode* node) {
  return AsHandle<CUgraphNode>(node->handle);
}

// An array of up to *count entries, or only their count. Who cannot say what an edge carries is not
// told of it as if it carried nothing.
CUresult Give(const std::vector<ListedEdge>& edges, CUgraphNode* from, CUgraphNode* to,
              CUgraphEdgeData* data, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (from == nullptr && to == nullptr) {
    *count = edges.size();
    return data != nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  bool lossy = std::any_of(edges.begin(), edges.end(),
                           [](const ListedEdge& edge) { return edge.data != 0; });
  if (lossy && data == nullptr) return CUDA_ERROR_LOSSY_QUERY;
  for (size_t i = 0; i < *count; ++i) {
    bool there = i < edges.size();
    if (from != nullptr) from[i] = there ? HandleOf(edges[i].from) : nullptr;
    if (to != nullptr) to[i] = there ? HandleOf(edges[i].to) : nullptr;
    if (data != nullptr) data[i] = EdgeOf(there ? edges[i].data : 0);
  }
  *count = std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

CUresult EnterGraph(CUgraph handle, std::shared_ptr<Graph>* graph) {
  *graph = FindGraph(handle);
  return *graph == nullptr ? CUDA_ERROR_INVALID_VALUE : Learn(graph->get());
}

CUresult EnterNode(CUgraphNode handle, GraphNode** node) {
  *node = FindNode(handle);
  return *node == nullptr ? CUDA_ERROR_INVALID_VALUE : Learn((*node)->graph);
}

CUresult ListNodes(CUgraph hGraph, bool roots, CUgraphNode* out, size_t* count) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph;
  CUresult status = EnterGraph(hGraph, &graph);
  if (status != CUDA_SUCCESS) return status;
  std::vector<ListedEdge> nodes;
  for (const auto& node : graph->nodes)
    if (!roots || node->after.empty()) nodes.push_back({node.get(), nullptr, 0});
  return Give(nodes, out, nullptr, nullptr, count);
}

CUresult ListEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   size_t* count) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph;
  CUresult status = EnterGraph(hGraph, &graph);
  if (status != CUDA_SUCCESS) return status;
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<ListedEdge> edges;
  for (const auto& node : graph->nodes)
    for (const GraphEdge& edge : node->after) edges.push_back({edge.from, node.get(), edge.data});
  return Give(edges, from, to, data, count);
}

CUresult ListDependencies(CUgraphNode hNode, CUgraphNode* out, CUgraphEdgeData* data,
                          size_t* count) {
  auto lock = LockGraphs();
  GraphNode* node = nullptr;
  CUresult status = EnterNode(hNode, &node);
  if (status != CUDA_SUCCESS) return status;
  std::vector<ListedEdge> edges;
  for (const GraphEdge& edge : node->after) edges.push_back({edge.from, node, edge.data});
  return Give(edges, out, nullptr, data, count);
}

CUresult ListDependents(CUgraphNode hNode, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  auto lock = LockGraphs();
  GraphNode* node = nullptr;
  CUresult status = EnterNode(hNode, &node);
  if (status != CUDA_SUCCESS) return status;
  std::vector<ListedEdge> edges;
  for (const auto& other : node->graph->nodes) {
    for (const GraphEdge& edge : other->after)
      if (edge.from == node) edges.push_back({node, other.get(), edge.data});
  }
  return Give(edges, nullptr, out, data, count);
}

std::vector<GraphEdge>::iterator FindEdge(GraphNode* from, GraphNode* to) {
  return std::find_if(to->after.begin(), to->after.end(),
                      [from](const GraphEdge& edge) { return edge.from == from; });
}

CUresult Connect(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  if (!IsEdgeData(data, *from, to) || FindEdge(from, to) != to->after.end() || Reaches(to, from))
    return CUDA_ERROR_INVALID_VALUE;
  to->after.push_back({from, EdgeBits(data)});
  return CUDA_SUCCESS;
}

CUresult Disconnect(GraphNode* from, GraphNode* to, const CUgraphEdgeData& data) {
  auto edge = FindEdge(from, to);
  if (edge == to->after.end() || edge->data != EdgeBits(data)) return CUDA_ERROR_INVALID_VALUE;
  to->after.erase(edge);
  return CUDA_SUCCESS;
}

// All that are sound up to the first that is not, as CUDA has it.
CUresult ChangeEdges(CallId call, CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                     const CUgraphEdgeData* data, size_t count) {
  auto lock = LockGraphs();
  bool add = call == CallId::cuGraphAddDependencies_v2;
  std::shared_ptr<Graph> graph;
  CUresult status = EnterGraph(hGraph, &graph);
  if (status != CUDA_SUCCESS) return status;
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (!add && graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  Builder body;
  body.Put<uint64_t>(graph->handle);
  body.Put<uint64_t>(0);  // how many follow
  uint64_t changed = 0;
  for (size_t i = 0; i < count && status == CUDA_SUCCESS; ++i) {
    GraphNode *a = FindNode(from[i]), *b = FindNode(to[i]);
    CUgraphEdgeData edge = data == nullptr ? CUgraphEdgeData{} : data[i];
    bool ours = a != nullptr && b != nullptr && a->graph == graph.get() && b->graph == graph.get();
    status = !ours ? CUDA_ERROR_INVALID_VALUE : add ? Connect(a, b, edge) : Disconnect(a, b, edge);
    if (status != CUDA_SUCCESS) break;
    body.Put<uint64_t>(a->handle);
    body.Put<uint64_t>(b->handle);
    body.Put<uint64_t>(EdgeBits(edge));
    ++changed;
  }
  if (changed == 0) return status;
  std::memcpy(body.mutable_bytes().data() + sizeof(uint64_t), &changed, sizeof(changed));
  CUresult posted = PostGraph(call, body);
  return status != CUDA_SUCCESS ? status : posted;
}

}  // namespace

CUresult Call_cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return ListNodes(hGraph, false, nodes, numNodes);
}
CUresult Call_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return ListNodes(hGraph, true, rootNodes, numRootNodes);
}

CUresult Call_cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                              size_t* numEdges) {
  return ListEdges(hGraph, from, to, nullptr, numEdges);
}
CUresult Call_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                                 CUgraphEdgeData* edgeData, size_t* numEdges) {
  return ListEdges(hGraph, from, to, edgeData, numEdges);
}

CUresult Call_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies,
                                         size_t* numDependencies) {
  return ListDependencies(hNode, dependencies, nullptr, numDependencies);
}
CUresult Call_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies,
                                            CUgraphEdgeData* edgeData, size_t* numDependencies) {
  return ListDependencies(hNode, dependencies, edgeData, numDependencies);
}

CUresult Call_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                           size_t* numDependentNodes) {
  return ListDependents(hNode, dependentNodes, nullptr, numDependentNodes);
}
CUresult Call_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                              CUgraphEdgeData* edgeData,
                                              size_t* numDependentNodes) {
  return ListDependents(hNode, dependentNodes, edgeData, numDependentNodes);
}

CUresult Call_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                     size_t numDependencies) {
  return ChangeEdges(CallId::cuGraphAddDependencies_v2, hGraph, from, to, nullptr, numDependencies);
}
CUresult Call_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                        size_t numDependencies) {
  return ChangeEdges(CallId::cuGraphAddDependencies_v2, hGraph, from, to, edgeData,
                     numDependencies);
}
CUresult Call_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from,
                                        const CUgraphNode* to, size_t numDependencies) {
  return ChangeEdges(CallId::cuGraphRemoveDependencies_v2, hGraph, from, to, nullptr,
                     numDependencies);
}
CUresult Call_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from,
                                           const CUgraphNode* to, const CUgraphEdgeData* edgeData,
                                           size_t numDependencies) {
  return ChangeEdges(CallId::cuGraphRemoveDependencies_v2, hGraph, from, to, edgeData,
                     numDependencies);
}

}  // namespace farcall::client
