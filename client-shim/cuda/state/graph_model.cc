// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/state/graph_model.h"

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/thread_state.h"

namespace farcall::client {

namespace {

struct Models {
  std::recursive_mutex mutex;
  std::unordered_map<uint64_t, std::shared_ptr<Graph>> graphs;
  std::unordered_map<uint64_t, GraphNode*> nodes;
  std::unordered_map<uint64_t, std::shared_ptr<GraphExec>> execs;
};
// Leaked.
Models* g_models = new Models;

template <typename T>
std::shared_ptr<T> FindIn(const std::unordered_map<uint64_t, std::shared_ptr<T>>& objects,
                          const void* handle) {
  auto found = objects.find(Wire(handle));
  return found == objects.end() ? nullptr : found->second;
}

// Graphs inside a node go with it.
void DropInside(const GraphNode& node) {
  std::vector<uint64_t> inner;
  for (CUgraph body : node.work->bodies) inner.push_back(Wire(body));
  if (node.child != 0) inner.push_back(node.child);
  for (uint64_t graph : inner) {
    std::shared_ptr<Graph> found = FindGraph(AsHandle<CUgraph>(graph));
    if (found != nullptr) DropGraph(found);
  }
}

void ForgetName(const GraphNode& node) {
  if (node.handle == 0) return;
  g_models->nodes.erase(node.handle);
  FreeHandle(HandleKind::kGraphNode, node.handle);
}

}  // namespace

bool Graph::Any(CUgraphNodeType type) const {
  for (const auto& node : nodes) {
    if (node->work->type() == type) return true;
    if (node->work->inside != nullptr && node->work->inside->Any(type)) return true;
    for (CUgraph each : node->work->bodies) {
      std::shared_ptr<Graph> graph = FindGraph(each);
      if (graph != nullptr && graph->Any(type)) return true;
    }
  }
  return inherited != nullptr && inherited->Any(type);
}

std::unique_lock<std::recursive_mutex> LockGraphs() {
  return std::unique_lock(g_models->mutex);
}

std::shared_ptr<Graph> FindGraph(CUgraph graph) {
  return FindIn(g_models->graphs, graph);
}

GraphNode* FindNode(CUgraphNode node) {
  auto found = g_models->nodes.find(Wire(node));
  return found == g_models->nodes.end() ? nullptr : found->second;
}

std::shared_ptr<GraphExec> FindExec(CUgraphExec exec) {
  return FindIn(g_models->execs, exec);
}

std::shared_ptr<Graph> KeepGraph(uint64_t handle) {
  auto graph = std::make_shared<Graph>();
  graph->handle = handle;
  graph->context = CurrentContext();
  g_models->graphs[handle] = graph;
  return graph;
}

void KeepExec(const std::shared_ptr<GraphExec>& exec) {
  g_models->execs[exec->handle] = exec;
}

std::shared_ptr<GraphExec> DropExec(CUgraphExec exec) {
  std::shared_ptr<GraphExec> found = FindExec(exec);
  g_models->execs.erase(Wire(exec));
  return found;
}

void DropGraph(const std::shared_ptr<Graph>& graph) {
  if (g_models->graphs.erase(graph->handle) == 0) return;
  FreeHandle(HandleKind::kGraph, graph->handle);
  for (const auto& node : graph->nodes) {
    DropInside(*node);
    ForgetName(*node);
  }
}

GraphNode* KeepNode(Graph* graph, uint64_t handle, std::shared_ptr<GraphWork> work) {
  auto node = std::make_unique<GraphNode>();
  node->graph = graph;
  node->handle = handle;
  node->work = std::move(work);
  if (handle != 0) g_models->nodes[handle] = node.get();
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

void DropNode(GraphNode* gone) {
  Graph* graph = gone->graph;
  for (const auto& node : graph->nodes)
    std::erase_if(node->after, [gone](const GraphEdge& edge) { return edge.from == gone; });
  DropInside(*gone);
  ForgetName(*gone);
  std::erase_if(graph->nodes, [gone](const auto& node) { return node.get() == gone; });
}

std::shared_ptr<Graph> CopyOfWork(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  copy->known = graph.known;
  copy->context = graph.context;
  copy->inherited = graph.inherited;
  std::unordered_map<const GraphNode*, GraphNode*> twins;
  for (const auto& node : graph.nodes) {
    // Its own: the original's may be changed later.
    auto work = std::make_shared<GraphWork>();
    work->given.type = node->work->type();
    work->host_function = node->work->host_function;
    work->copies = node->work->copies;
    work->memory = node->work->memory;
    work->inside = node->work->inside;
    if (work->type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD) work->given = node->work->given;
    twins[node.get()] = KeepNode(copy.get(), 0, std::move(work));
  }
  for (const auto& node : graph.nodes)
    for (const GraphEdge& edge : node->after)
      twins[node.get()]->after.push_back({twins[edge.from], edge.data});
  copy->users.Share(graph.users);
  return copy;
}

bool TouchesHost(const GraphWork& work) {
  const CUDA_MEMCPY3D& copy = work.given.memcpy.copyParams;
  return work.type() == CU_GRAPH_NODE_TYPE_MEMCPY &&
         (!work.copies.empty() || copy.srcMemoryType == CU_MEMORYTYPE_HOST ||
          copy.dstMemoryType == CU_MEMORYTYPE_HOST);
}

bool Reaches(const GraphNode* from, const GraphNode* to) {
  std::set<const GraphNode*> seen;
  std::vector<const GraphNode*> next = {to};
  while (!next.empty()) {
    const GraphNode* node = next.back();
    next.pop_back();
    if (node == from) return true;
    if (!seen.insert(node).second) continue;
    for (const GraphEdge& edge : node->after) next.push_back(edge.from);
  }
  return false;
}

}  // namespace farcall::client
