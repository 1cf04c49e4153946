// SPDX-License-Identifier: Apache-2.0
// Graphs as the client knows them: nodes, what they do, what they stand on. A graph that a capture
// or a clone made is asked for when somebody wants to know (graph_learn.cc).
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "client-shim/core/session/session_face.h"
#include "client-shim/cuda/state/graph_copies.h"
#include "client-shim/cuda/state/user_objects.h"
#include "proto/codec.h"

namespace farcall::client {

struct Graph;
class GraphMemory;

// What a node does, as the application said it. Pointers in `given` are into this object.
struct GraphWork {
  CUgraphNodeParams given{};
  bool known = true;  // else the server is asked first
  std::vector<std::byte> kernel_bytes;
  std::vector<void*> kernel_values;
  size_t kernel_size = 0;               // what `extra` points at
  std::array<void*, 5> kernel_extra{};  // CU_LAUNCH_PARAM_*, where the kernel was given so
  std::vector<CUmemAccessDesc> accesses;
  std::vector<CUstreamBatchMemOpParams> mem_ops;
  std::vector<CUgraph> bodies;
  uint64_t host_function = 0;
  // A copy's sides as the device sees them: a mirror for host memory.
  CUDA_MEMCPY3D device_copy{};
  std::vector<std::shared_ptr<HostCopy>> copies;
  std::shared_ptr<GraphMemory> memory;
  // A child graph's or a launched graph's: what it reads and writes on the client.
  std::shared_ptr<const Graph> inside;

  CUgraphNodeType type() const { return given.type; }
};

struct GraphNode;

struct GraphEdge {
  GraphNode* from = nullptr;
  uint64_t data = 0;
};

struct GraphNode {
  Graph* graph = nullptr;
  uint64_t handle = 0;  // 0: inside a copy that nobody can name
  std::shared_ptr<GraphWork> work;
  std::vector<GraphEdge> after;
  uint64_t child = 0;  // name of a child graph, once asked for
};

struct Graph {
  uint64_t handle = 0;
  Context* context = nullptr;
  bool known = true;       // all nodes and edges are here
  bool inner = false;      // of a child graph node or a conditional's body: goes with its node
  bool body = false;       // of a conditional
  bool capturing = false;  // until the capture ends
  int execs = 0;
  std::vector<std::unique_ptr<GraphNode>> nodes;
  // What a clone has of nodes it has not been told of; and which are found by their originals.
  std::shared_ptr<const Graph> inherited;
  const Graph* cloned_from = nullptr;  // for comparison
  std::unordered_map<uint64_t, uint64_t> found;
  UserObjects users;

  bool Any(CUgraphNodeType type) const;
  bool has_memory() const {
    return Any(CU_GRAPH_NODE_TYPE_MEM_ALLOC) || Any(CU_GRAPH_NODE_TYPE_MEM_FREE);
  }
};

// A frozen graph: what each launch does on the client.
struct GraphExec {
  uint64_t handle = 0;
  Context* context = nullptr;
  unsigned long long flags = 0;
  std::weak_ptr<Graph> source;
  std::unordered_map<uint64_t, CUgraphNodeType> nodes;
  bool partial = false;  // there are more that had no name then
  std::set<uint64_t> disabled;
  std::unordered_map<uint64_t, CUevent> events;  // of record nodes that were changed here
  LaunchPlan plan;
  std::vector<std::shared_ptr<GraphMemory>> allocates, frees;
  std::shared_ptr<UserObjects> users;
  std::set<uint64_t> launched_on;  // streams, while `users` holds something
};

// One lock for all models: graphs are not for several threads at once, but handles are. Never held
// while waiting for anything that a stream does.
std::unique_lock<std::recursive_mutex> LockGraphs();
// Under the lock; nullptr: no such object.
std::shared_ptr<Graph> FindGraph(CUgraph graph);
GraphNode* FindNode(CUgraphNode node);
std::shared_ptr<GraphExec> FindExec(CUgraphExec exec);

std::shared_ptr<Graph> KeepGraph(uint64_t handle);
void KeepExec(const std::shared_ptr<GraphExec>& exec);
std::shared_ptr<GraphExec> DropExec(CUgraphExec exec);
// The graph, its nodes and what is inside them can no longer be named.
void DropGraph(const std::shared_ptr<Graph>& graph);
GraphNode* KeepNode(Graph* graph, uint64_t handle, std::shared_ptr<GraphWork> work);
void DropNode(GraphNode* node);

// A copy of what the graph does, without names.
std::shared_ptr<Graph> CopyOfWork(const Graph& graph);
// A copy whose parameters name host memory.
bool TouchesHost(const GraphWork& work);
// `to` is reached from `from`, or is it.
bool Reaches(const GraphNode* from, const GraphNode* to);

inline uint64_t Wire(const void* handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <typename T>
T AsHandle(uint64_t handle) {
  return reinterpret_cast<T>(handle);
}

// ---- graph_learn.cc: asking the server. Under the lock.
struct Frontier {
  std::vector<GraphNode*> nodes;
  std::vector<uint64_t> data;
};
// Nodes and edges; `stream`: also what its next node stands on, as a wire value. `places`: the
// listing's nodes in order.
CUresult Learn(Graph* graph, uint64_t stream, Frontier* frontier, std::vector<GraphNode*>* places);
inline CUresult Learn(Graph* graph) {
  return graph->known ? CUDA_SUCCESS : Learn(graph, 0, nullptr, nullptr);
}
// What a node does.
CUresult LearnWork(GraphNode* node);

// ---- graph_wire.cc: parameters on the wire. The partner is server/calls/graph/graph_params.cc.
void PutWork(Builder* body, const GraphWork& work);
CUresult TakeWork(Reader* in, GraphWork* work);
// Checks as CUDA does, and makes what the client needs for it. `graph`: where the node is to be.
CUresult MakeWork(const CUgraphNodeParams& params, Graph* graph, GraphWork* work);

// ---- graph_nodes.cc
// A node of the graph that the stream captures, behind what the stream has.
CUresult AddCaptured(CUstream stream, const std::shared_ptr<GraphWork>& work);
CUresult AddWork(Graph* graph, const std::vector<GraphEdge>& after, uint64_t stream,
                 const std::shared_ptr<GraphWork>& work, GraphNode** made);
CUresult PostGraph(CallId call, const Builder& body);
CUresult ResolveEdges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                      size_t count, std::vector<GraphEdge>* edges);
bool IsEdgeData(const CUgraphEdgeData& data, const GraphNode& from, const GraphNode* to);
uint64_t EdgeBits(const CUgraphEdgeData& data);
CUgraphEdgeData EdgeOf(uint64_t bits);
void PutEdges(Builder* body, const std::vector<GraphEdge>& edges);

}  // namespace farcall::client
