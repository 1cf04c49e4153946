// SPDX-License-Identifier: Apache-2.0
// Making graphs: nodes and what they are to do. Every form of a call becomes one of three records:
// add, change, change in an executable graph.
#include <algorithm>
#include <cstring>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/objects/graph_params.h"
#include "client-shim/cuda/state/graph_model.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// What a conditional's body may consist of.
bool FitsBody(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

CUresult NameBodies(GraphWork* work) {
  CUDA_CONDITIONAL_NODE_PARAMS& conditional = work->given.conditional;
  for (unsigned i = 0; i < conditional.size; ++i) {
    CUresult error = CUDA_SUCCESS;
    uint64_t name = NewHandle(HandleKind::kGraph, &error);
    if (error != CUDA_SUCCESS) return error;
    work->bodies.push_back(AsHandle<CUgraph>(name));
    std::shared_ptr<Graph> inner = KeepGraph(name);
    inner->inner = inner->body = true;
  }
  conditional.phGraph_out = work->bodies.data();
  return CUDA_SUCCESS;
}

CUresult Add(CUgraphNode* out, CUgraph hGraph, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  if (graph == nullptr || out == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphEdge> after;
  CUresult status = ResolveEdges(*graph, dependencies, data, count, &after);
  if (status != CUDA_SUCCESS) return status;
  if (graph->body && !FitsBody(params->type)) return CUDA_ERROR_NOT_SUPPORTED;
  auto work = std::make_shared<GraphWork>();
  status = MakeWork(*params, graph.get(), work.get());
  if (status != CUDA_SUCCESS) return status;
  GraphNode* made = nullptr;
  status = AddWork(graph.get(), after, 0, work, &made);
  if (status != CUDA_SUCCESS) return status;
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) params->alloc.dptr = work->memory->address;
  if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    params->conditional.phGraph_out = work->bodies.data();
  *out = AsHandle<CUgraphNode>(made->handle);
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult AddTyped(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                  const Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams wide = ParamsFrom(*params);
  return Add(out, graph, dependencies, nullptr, count, &wide);
}

}  // namespace

uint64_t EdgeBits(const CUgraphEdgeData& data) {
  uint64_t bits = 0;
  static_assert(sizeof(data) == sizeof(bits));
  std::memcpy(&bits, &data, sizeof(bits));
  return bits;
}

CUgraphEdgeData EdgeOf(uint64_t bits) {
  CUgraphEdgeData data;
  std::memcpy(&data, &bits, sizeof(data));
  return data;
}

// Only a kernel offers more than its completion, and only another kernel takes it.
bool IsEdgeData(const CUgraphEdgeData& data, const GraphNode& from, const GraphNode* to) {
  if (EdgeBits(data) == 0) return true;
  CUgraphEdgeData rest = data;
  rest.from_port = rest.type = 0;
  if (EdgeBits(rest) != 0 || data.type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
      data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER)
    return false;
  bool kernels = from.work->type() == CU_GRAPH_NODE_TYPE_KERNEL &&
                 (to == nullptr || to->work->type() == CU_GRAPH_NODE_TYPE_KERNEL);
  bool programmatic = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  return kernels && (!programmatic || data.from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT);
}

CUresult ResolveEdges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                      size_t count, std::vector<GraphEdge>* edges) {
  if (nodes == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  std::set<const GraphNode*> seen;
  for (size_t i = 0; i < count; ++i) {
    GraphNode* node = FindNode(nodes[i]);
    if (node == nullptr || node->graph != &graph || !seen.insert(node).second)
      return CUDA_ERROR_INVALID_VALUE;
    if (data != nullptr && !IsEdgeData(data[i], *node, nullptr)) return CUDA_ERROR_INVALID_VALUE;
    edges->push_back({node, data == nullptr ? 0 : EdgeBits(data[i])});
  }
  return CUDA_SUCCESS;
}

void PutEdges(Builder* body, const std::vector<GraphEdge>& edges) {
  body->Put<uint64_t>(edges.size());
  for (const GraphEdge& edge : edges) {
    body->Put<uint64_t>(edge.from->handle);
    body->Put<uint64_t>(edge.data);
  }
}

// An older call's late error stays for the next one: this one has made what it says.
CUresult PostGraph(CallId call, const Builder& body) {
  std::vector<std::byte> bytes(body.bytes().begin(), body.bytes().end());
  bytes.resize(AlignUp(bytes.size(), 8));
  return PostRecord(MakeRecord(call, bytes));
}

CUresult AddWork(Graph* graph, const std::vector<GraphEdge>& after, uint64_t stream,
                 const std::shared_ptr<GraphWork>& work, GraphNode** made) {
  for (const GraphEdge& edge : after) {
    bool programmatic = edge.data != 0 && work->type() != CU_GRAPH_NODE_TYPE_KERNEL;
    if (programmatic) return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult status = CUDA_SUCCESS;
  uint64_t name = NewHandle(HandleKind::kGraphNode, &status);
  if (status == CUDA_SUCCESS && work->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL)
    status = NameBodies(work.get());
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  body.Put<uint64_t>(name);
  body.Put<uint64_t>(graph->handle);
  body.Put<uint64_t>(stream);
  PutWork(&body, *work);
  PutEdges(&body, after);
  status = PostGraph(CallId::cuGraphAddNode_v2, body);
  GraphNode* node = KeepNode(graph, name, work);
  node->after = after;
  if (status != CUDA_SUCCESS) {
    DropNode(node);
    return status;
  }
  *made = node;
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  if (phGraph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = Post_cuGraphCreate(phGraph, flags);
  if (status != CUDA_SUCCESS) return status;
  auto lock = LockGraphs();
  KeepGraph(Wire(*phGraph));
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphDestroy(CUgraph hGraph) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(hGraph);
  if (graph == nullptr || graph->inner || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  Builder body;
  body.Put<uint64_t>(graph->handle);
  DropGraph(graph);
  return PostGraph(CallId::cuGraphDestroy, body);
}

CUresult Call_cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> graph = FindGraph(originalGraph);
  if (graph == nullptr || phGraphClone == nullptr || graph->capturing)
    return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory() || graph->Any(CU_GRAPH_NODE_TYPE_CONDITIONAL))
    return CUDA_ERROR_NOT_SUPPORTED;
  CUresult status = Post_cuGraphClone(phGraphClone, originalGraph);
  if (status != CUDA_SUCCESS) return status;
  std::shared_ptr<Graph> clone = KeepGraph(Wire(*phGraphClone));
  clone->known = false;
  clone->cloned_from = graph.get();
  clone->inherited = CopyOfWork(*graph);
  clone->users.Share(graph->users);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                     CUgraph hClonedGraph) {
  auto lock = LockGraphs();
  std::shared_ptr<Graph> clone = FindGraph(hClonedGraph);
  GraphNode* original = FindNode(hOriginalNode);
  if (phNode == nullptr || clone == nullptr || original == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto known = clone->found.find(original->handle);
  if (known != clone->found.end()) {
    *phNode = AsHandle<CUgraphNode>(known->second);
    return FindNode(*phNode) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (clone->cloned_from != original->graph) return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  uint64_t name = NewHandle(HandleKind::kGraphNode, &status);
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  body.Put<uint64_t>(name);
  body.Put<uint64_t>(original->handle);
  body.Put<uint64_t>(clone->handle);
  if (clone->known) {
    // Its nodes have names already.
    FreeHandle(HandleKind::kGraphNode, name);
    Reply reply;
    status = RoundTrip(CallId::cuGraphNodeFindInClone, body.bytes(), &reply);
    if (status != CUDA_SUCCESS) return status;
    Reader in = reply.outputs();
    name = in.Get<uint64_t>();
    if (!in.Done() || FindNode(AsHandle<CUgraphNode>(name)) == nullptr) return CUDA_ERROR_UNKNOWN;
    clone->found[original->handle] = name;
    *phNode = AsHandle<CUgraphNode>(name);
    return CUDA_SUCCESS;
  }
  status = PostGraph(CallId::cuGraphNodeFindInClone, body);
  if (status != CUDA_SUCCESS) return status;
  auto work = std::make_shared<GraphWork>();
  work->given.type = original->work->type();
  work->known = false;
  KeepNode(clone.get(), name, std::move(work));
  clone->found[original->handle] = name;
  *phNode = AsHandle<CUgraphNode>(name);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphDestroyNode(CUgraphNode hNode) {
  auto lock = LockGraphs();
  GraphNode* node = FindNode(hNode);
  if (node == nullptr || node->graph->has_memory()) return CUDA_ERROR_INVALID_VALUE;
  Builder body;
  body.Put<uint64_t>(node->handle);
  DropNode(node);
  return PostGraph(CallId::cuGraphDestroyNode, body);
}

CUresult Call_cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                const CUgraphNode* dependencies,
                                const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                CUgraphNodeParams* nodeParams) {
  return Add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                             const CUgraphNode* dependencies, size_t numDependencies,
                             CUgraphNodeParams* nodeParams) {
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddKernelNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_MEMCPY3D* copyParams, CUcontext) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, copyParams);
}

CUresult Call_cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, memsetParams);
}

CUresult Call_cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                 const CUgraphNode* dependencies, size_t numDependencies,
                                 const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies, size_t numDependencies,
                                       const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return AddTyped(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult Call_cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                       const CUgraphNode* dependencies, size_t numDependencies,
                                       CUgraph childGraph) {
  CUgraphNodeParams params = ChildParams(childGraph);
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
}

CUresult Call_cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, size_t numDependencies) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
}

CUresult Call_cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                        const CUgraphNode* dependencies, size_t numDependencies,
                                        CUevent event) {
  CUgraphNodeParams params = EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
}

CUresult Call_cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                      const CUgraphNode* dependencies, size_t numDependencies,
                                      CUevent event) {
  CUgraphNodeParams params = EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
}

CUresult Call_cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                     const CUgraphNode* dependencies, size_t numDependencies,
                                     CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  params.alloc = {nodeParams->poolProps, nodeParams->accessDescs, nodeParams->accessDescCount,
                  nodeParams->bytesize, 0};
  CUresult status = Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
  if (status == CUDA_SUCCESS) nodeParams->dptr = params.alloc.dptr;
  return status;
}

CUresult Call_cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                    const CUgraphNode* dependencies, size_t numDependencies,
                                    CUdeviceptr dptr) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  params.free.dptr = dptr;
  return Add(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &params);
}

}  // namespace farcall::client
