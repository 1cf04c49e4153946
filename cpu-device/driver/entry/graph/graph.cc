// SPDX-License-Identifier: Apache-2.0
// Graphs and their nodes. Edges: graph_edges.cc; parameters: graph_params.cc.
#include "cpu-device/driver/state/graph.h"

#include <algorithm>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/graph/graph_params.h"
#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUgraph handle, std::shared_ptr<Graph>* graph) {
  if (const CUresult result = CheckInitialized()) return result;
  *graph = TheDriver().graphs.Find(handle);
  return *graph == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// What a new node stands on: nodes of this graph, all different.
CUresult Resolve(const Graph& graph, const CUgraphNode* dependencies, size_t count,
                 std::vector<GraphNode*>* nodes) {
  if (dependencies == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const std::shared_ptr<GraphNode> node = GraphNodes().Find(dependencies[i]);
    if (node == nullptr || &node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    if (std::find(nodes->begin(), nodes->end(), node.get()) != nodes->end())
      return CUDA_ERROR_INVALID_VALUE;
    nodes->push_back(node.get());
  }
  return CUDA_SUCCESS;
}

CUresult AllocateFor(Graph& graph, CUgraphNodeParams* params,
                     std::shared_ptr<GraphMemory>* memory) {
  CUDA_MEM_ALLOC_NODE_PARAMS_v2& alloc = params->alloc;
  std::shared_ptr<Context> context;
  if (const CUresult result = CurrentContext(&context)) return result;
  const CUmemPoolProps& props = alloc.poolProps;
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      FindDevice(props.location.id) == nullptr || props.handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      (alloc.accessDescCount != 0 && alloc.accessDescs == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  if (props.location.id != context->device().ordinal) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult result = GraphMemory::Make(*context, alloc.bytesize, memory)) return result;
  (*memory)->owner = &graph;
  alloc.dptr = (*memory)->address;
  return CUDA_SUCCESS;
}

// In the owning graph or in one other, and once.
CUresult FreeFor(const Graph& graph, CUdeviceptr address, std::shared_ptr<GraphMemory>* memory) {
  *memory = GraphMemory::Find(address);
  if (*memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Graph* before = (*memory)->freed_by;
  const bool taken = before != nullptr &&
                     (before == &graph || before == (*memory)->owner || (*memory)->owner == &graph);
  if (taken) return CUDA_ERROR_INVALID_VALUE;
  (*memory)->freed_by = &graph;
  return CUDA_SUCCESS;
}

CUresult MakeBody(const Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS* params,
                  std::unique_ptr<ConditionalBody>* body) {
  const auto condition = Conditionals().Find(reinterpret_cast<const void*>(params->handle));
  if (condition == nullptr || condition->has_node) return CUDA_ERROR_INVALID_VALUE;
  const unsigned most = params->type == CU_GRAPH_COND_TYPE_WHILE ? 1
                        : params->type == CU_GRAPH_COND_TYPE_IF  ? 2
                                                                 : 1u << 16;
  if (params->type < 0 || params->type > CU_GRAPH_COND_TYPE_SWITCH || params->size == 0 ||
      params->size > most)
    return CUDA_ERROR_INVALID_VALUE;
  // The value is of this graph, or of one that this graph is inside of.
  const std::shared_ptr<Graph> owner = condition->graph.lock();
  if (owner == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (owner.get() != &graph && !graph.embedded) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<ConditionalBody>();
  made->condition = condition;
  made->type = params->type;
  for (unsigned i = 0; i < params->size; ++i) {
    auto inner = std::make_shared<Graph>();
    inner->embedded = inner->body = true;
    made->handles.push_back(inner->handle());
    made->graphs.push_back(inner);
    TheDriver().graphs.Add(std::move(inner));
  }
  condition->has_node = true;
  params->phGraph_out = made->handles.data();
  *body = std::move(made);
  return CUDA_SUCCESS;
}

CUresult CopyChild(const CUDA_CHILD_GRAPH_NODE_PARAMS& params, const Graph& parent,
                   std::shared_ptr<Graph>* child) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(params.graph, &graph)) return result;
  if (params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  if (params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE || graph.get() == &parent ||
      graph->has_memory_nodes() || graph->has_conditionals())
    return CUDA_ERROR_INVALID_VALUE;
  *child = graph->Clone();
  (*child)->embedded = true;
  return CUDA_SUCCESS;
}

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

CUresult Add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  std::shared_ptr<Graph> graph;
  std::vector<GraphNode*> nodes;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (out == nullptr || params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = Resolve(*graph, dependencies, count, &nodes)) return result;
  if (graph->body && !FitsBody(params->type)) return CUDA_ERROR_NOT_SUPPORTED;
  NodeWork work;
  std::shared_ptr<GraphMemory> memory;
  std::unique_ptr<ConditionalBody> body;
  std::shared_ptr<Graph> child;
  CUresult result = CUDA_SUCCESS;
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      result = AllocateFor(*graph, params, &memory);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      result = FreeFor(*graph, params->free.dptr, &memory);
      break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      result = MakeBody(*graph, &params->conditional, &body);
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      result = CopyChild(params->graph, *graph, &child);
      break;
    default:
      result = WorkFrom(*params, &work);
      break;
  }
  if (result != CUDA_SUCCESS) return result;
  GraphNode& made = graph->Add(params->type, std::move(nodes));
  Assign(std::move(work), &made);
  made.memory = std::move(memory);
  made.body = std::move(body);
  made.child = child;
  if (child != nullptr) TheDriver().graphs.Add(child);
  for (size_t i = 0; data != nullptr && i < count; ++i) {
    if (IsEdgeData(data[i], *made.dependencies[i], made)) {
      if (!IsPlain(data[i])) made.edge_data[made.dependencies[i]] = data[i];
      continue;
    }
    graph->Remove(made);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = made.handle();
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
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (const CUresult result = CheckInitialized()) return result;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  auto graph = std::make_shared<Graph>();
  *out = graph->handle();
  TheDriver().graphs.Add(std::move(graph));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (graph->embedded) return CUDA_ERROR_INVALID_VALUE;
  TheDriver().graphs.Take(handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph->has_memory_nodes() || graph->has_conditionals()) return CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<Graph> copy = graph->Clone();
  for (const auto& node : copy->nodes()) {
    if (node->child == nullptr) continue;
    node->child->embedded = true;
    TheDriver().graphs.Add(node->child);
  }
  *out = copy->handle();
  TheDriver().graphs.Add(std::move(copy));
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(clone, &graph)) return result;
  const std::shared_ptr<GraphNode> node = GraphNodes().Find(original);
  if (out == nullptr || node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& twin : graph->nodes()) {
    if (twin->id != node->id || twin->type != node->type) continue;
    *out = twin->handle();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return Add(node, graph, dependencies, data, count, params);
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* params) {
  return Add(node, graph, dependencies, nullptr, count, params);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* params, CUcontext) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return AddTyped(node, graph, dependencies, count, params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return Add(node, graph, dependencies, nullptr, count, &params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  CUgraphNodeParams params = ChildParams(child);
  return Add(node, graph, dependencies, nullptr, count, &params);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies, size_t count, CUevent event) {
  CUgraphNodeParams params = EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
  return Add(node, graph, dependencies, nullptr, count, &params);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  CUgraphNodeParams params = EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
  return Add(node, graph, dependencies, nullptr, count, &params);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphNodeParams wide{};
  wide.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  wide.alloc = {params->poolProps, params->accessDescs, params->accessDescCount, params->bytesize,
                0};
  const CUresult result = Add(node, graph, dependencies, nullptr, count, &wide);
  if (result == CUDA_SUCCESS) params->dptr = wide.alloc.dptr;
  return result;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                               size_t count, CUdeviceptr address) {
  CUgraphNodeParams wide{};
  wide.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  wide.free.dptr = address;
  return Add(node, graph, dependencies, nullptr, count, &wide);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph handle,
                                        CUcontext context_handle, unsigned int value,
                                        unsigned int flags) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (context_handle != nullptr && TheDriver().contexts.Find(context_handle) == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (out == nullptr || (flags & ~CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  auto condition = std::make_shared<Conditional>();
  condition->graph = graph;
  condition->default_value = value;
  condition->assign_default = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
  condition->value = condition->assign_default ? value : 0;
  *out = condition->handle();
  graph->conditionals.push_back(condition);
  Conditionals().Add(std::move(condition));
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  if (const CUresult result = CheckInitialized()) return result;
  const std::shared_ptr<GraphNode> node = GraphNodes().Find(handle);
  if (node == nullptr || node->graph.has_memory_nodes()) return CUDA_ERROR_INVALID_VALUE;
  node->graph.Remove(*node);
  return CUDA_SUCCESS;
}

}  // extern "C"
