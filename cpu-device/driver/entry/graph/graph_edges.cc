// SPDX-License-Identifier: Apache-2.0
// Which nodes a graph has and what depends on what.
#include <algorithm>
#include <cstring>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUgraph handle, std::shared_ptr<Graph>* graph) {
  if (const CUresult result = CheckInitialized()) return result;
  *graph = TheDriver().graphs.Find(handle);
  return *graph == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Enter(CUgraphNode handle, std::shared_ptr<GraphNode>* node) {
  if (const CUresult result = CheckInitialized()) return result;
  *node = GraphNodes().Find(handle);
  return *node == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// A list under construction of what an application asked for: an array of up to *count entries, or
// only their count.
struct Edge {
  GraphNode* from;
  GraphNode* to;
  CUgraphEdgeData data;
};

// `with_data`: the call can say what an edge carries; else an edge that does is an error.
CUresult Give(const std::vector<Edge>& edges, CUgraphNode* from, CUgraphNode* to,
              CUgraphEdgeData* data, bool with_data, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool fill = from != nullptr || to != nullptr;
  const bool lossy =
      std::any_of(edges.begin(), edges.end(), [](const Edge& edge) { return !IsPlain(edge.data); });
  if (lossy && fill && data == nullptr) return CUDA_ERROR_LOSSY_QUERY;
  if (!fill) {
    *count = edges.size();
    return with_data && data != nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) {
    const bool there = i < edges.size();
    if (from != nullptr) from[i] = there ? edges[i].from->handle() : nullptr;
    if (to != nullptr) to[i] = there ? edges[i].to->handle() : nullptr;
    if (data != nullptr) data[i] = there ? edges[i].data : CUgraphEdgeData{};
  }
  *count = std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

CUresult GiveNodes(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  std::vector<Edge> edges;
  edges.reserve(nodes.size());
  for (GraphNode* node : nodes) edges.push_back({node, node, {}});
  return Give(edges, out, nullptr, nullptr, false, count);
}

CUresult ListEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                   bool with_data, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if ((from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  for (const auto& node : graph->nodes())
    for (GraphNode* dependency : node->dependencies)
      edges.push_back({dependency, node.get(), node->EdgeFrom(dependency)});
  return Give(edges, from, to, data, with_data, count);
}

CUresult Dependencies(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, bool with_data,
                      size_t* count) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  std::vector<Edge> edges;
  for (GraphNode* from : node->dependencies)
    edges.push_back({from, node.get(), node->EdgeFrom(from)});
  return Give(edges, out, nullptr, data, with_data, count);
}

CUresult DependentNodes(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, bool with_data,
                        size_t* count) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  std::vector<Edge> edges;
  for (GraphNode* to : node->graph.Dependents(*node))
    edges.push_back({node.get(), to, to->EdgeFrom(node.get())});
  return Give(edges, nullptr, out, data, with_data, count);
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                     const CUgraphEdgeData* data, size_t count, bool connect) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  if (!connect && graph->has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const auto a = GraphNodes().Find(from[i]), b = GraphNodes().Find(to[i]);
    if (a == nullptr || b == nullptr || &a->graph != graph.get() || &b->graph != graph.get())
      return CUDA_ERROR_INVALID_VALUE;
    const CUgraphEdgeData edge = data == nullptr ? CUgraphEdgeData{} : data[i];
    if (!IsEdgeData(edge, *a, *b)) return CUDA_ERROR_INVALID_VALUE;
    const CUgraphEdgeData now = b->EdgeFrom(a.get());
    if (!connect && memcmp(&edge, &now, sizeof(edge)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!(connect ? graph->Connect(*a, *b) : graph->Disconnect(*a, *b)))
      return CUDA_ERROR_INVALID_VALUE;
    if (connect && !IsPlain(edge)) b->edge_data[a.get()] = edge;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node.get());
  return GiveNodes(nodes, out, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes())
    if (node->dependencies.empty()) nodes.push_back(node.get());
  return GiveNodes(nodes, out, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return ListEdges(graph, from, to, nullptr, false, count);
}
CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  return ListEdges(graph, from, to, data, true, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return Dependencies(node, out, nullptr, false, count);
}
CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                       size_t* count) {
  return Dependencies(node, out, data, true, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return DependentNodes(node, out, nullptr, false, count);
}
CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                         size_t* count) {
  return DependentNodes(node, out, data, true, count);
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return ChangeEdges(graph, from, to, nullptr, count, true);
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return ChangeEdges(graph, from, to, data, count, true);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return ChangeEdges(graph, from, to, nullptr, count, false);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData* data, size_t count) {
  return ChangeEdges(graph, from, to, data, count, false);
}

}  // extern "C"
