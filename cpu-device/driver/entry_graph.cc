// SPDX-License-Identifier: Apache-2.0
// Graphs and their nodes.
#include <algorithm>

#include "cpu-device/driver/api.h"
#include "cpu-device/driver/context.h"
#include "cpu-device/driver/device.h"
#include "cpu-device/driver/event.h"
#include "cpu-device/driver/graph.h"
#include "cpu-device/driver/graph_params.h"

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

// Makes a node after `dependencies`, all of which are in this graph and different.
CUresult Add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
             CUgraphNodeType type, GraphNode** made) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (out == nullptr || (dependencies == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> nodes;
  for (size_t i = 0; i < count; ++i) {
    const std::shared_ptr<GraphNode> node = GraphNodes().Find(dependencies[i]);
    if (node == nullptr || &node->graph != graph.get()) return CUDA_ERROR_INVALID_VALUE;
    if (std::find(nodes.begin(), nodes.end(), node.get()) != nodes.end())
      return CUDA_ERROR_INVALID_VALUE;
    nodes.push_back(node.get());
  }
  *made = &graph->Add(type, std::move(nodes));
  *out = (*made)->handle();
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult AddOp(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
               CUgraphNodeType type, const Params* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  if (const CUresult result = OpFrom(*params, &op)) return result;
  GraphNode* made = nullptr;
  if (const CUresult result = Add(out, graph, dependencies, count, type, &made)) return result;
  made->op = std::move(op);
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult GetOp(CUgraphNode handle, Params* params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : ParamsOf(*node, params);
}

template <typename Params>
CUresult SetOp(CUgraphNode handle, CUgraphNodeType type, const Params* params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (params == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  if (const CUresult result = OpFrom(*params, &op)) return result;
  node->op = std::move(op);
  return CUDA_SUCCESS;
}

CUresult AddEvent(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                  CUgraphNodeType type, CUevent handle) {
  const std::shared_ptr<Event> event = TheDriver().events.Find(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  GraphNode* made = nullptr;
  if (const CUresult result = Add(out, graph, dependencies, count, type, &made)) return result;
  made->event = {event, type == CU_GRAPH_NODE_TYPE_EVENT_RECORD};
  return CUDA_SUCCESS;
}

CUresult GetEvent(CUgraphNode handle, CUgraphNodeType type, CUevent* event) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (event == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  *event = node->event.event->handle();
  return CUDA_SUCCESS;
}

CUresult SetEvent(CUgraphNode handle, CUgraphNodeType type, CUevent event_handle) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  const std::shared_ptr<Event> event = TheDriver().events.Find(event_handle);
  if (event == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  node->event.event = event;
  return CUDA_SUCCESS;
}

// Fills an array of up to *count handles; without an array, only counts.
CUresult List(const std::vector<GraphNode*>& nodes, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out != nullptr) {
    for (size_t i = 0; i < *count; ++i) out[i] = i < nodes.size() ? nodes[i]->handle() : nullptr;
    *count = std::min(*count, nodes.size());
  } else {
    *count = nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult ListEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  size_t edges = 0;
  for (const auto& node : graph->nodes()) {
    for (GraphNode* dependency : node->dependencies) {
      if (from != nullptr && edges < *count) {
        from[edges] = dependency->handle();
        to[edges] = node->handle();
      }
      ++edges;
    }
  }
  *count = from != nullptr ? std::min(*count, edges) : edges;
  return CUDA_SUCCESS;
}

CUresult ChangeEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, size_t count,
                     bool connect) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const auto a = GraphNodes().Find(from[i]), b = GraphNodes().Find(to[i]);
    if (a == nullptr || b == nullptr || &a->graph != graph.get() || &b->graph != graph.get())
      return CUDA_ERROR_INVALID_VALUE;
    if (!(connect ? graph->Connect(*a, *b) : graph->Disconnect(*a, *b)))
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult Dependencies(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  return List(node->dependencies, out, count);
}

CUresult DependentNodes(CUgraphNode handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  return List(node->graph.Dependents(*node), out, count);
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
  if (const CUresult result = CheckInitialized()) return result;
  return TheDriver().graphs.Take(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> copy = graph->Clone();
  *out = copy->handle();
  TheDriver().graphs.Add(std::move(copy));
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  std::shared_ptr<Graph> graph;
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(clone, &graph)) return result;
  if (const CUresult result = Enter(original, &node)) return result;
  for (const auto& twin : graph->nodes()) {
    if (twin->id != node->id || twin->type != node->type) continue;
    *out = twin->handle();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return AddOp(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL, params);
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS_v2 wide = Widen(*params);
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &wide);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* params, CUcontext) {
  return AddOp(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return AddOp(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_MEMSET, params);
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return AddOp(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_HOST, params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  GraphNode* made = nullptr;
  return Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EMPTY, &made);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child_handle) {
  std::shared_ptr<Graph> child;
  if (const CUresult result = Enter(child_handle, &child)) return result;
  GraphNode* made = nullptr;
  if (const CUresult result =
          Add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH, &made))
    return result;
  made->child = child->Clone();
  TheDriver().graphs.Add(made->child);
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* graph) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (graph == nullptr || node->child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = node->child->handle();
  return CUDA_SUCCESS;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies, size_t count, CUevent event) {
  return AddEvent(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  return AddEvent(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetEvent(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return SetEvent(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return GetOp(node, params);
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return GetOp(node, params);
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return GetOp(node, params);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return GetOp(node, params);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetOp(node, CU_GRAPH_NODE_TYPE_KERNEL, params);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return SetOp(node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return SetOp(node, CU_GRAPH_NODE_TYPE_MEMSET, params);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return SetOp(node, CU_GRAPH_NODE_TYPE_HOST, params);
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node.get());
  return List(nodes, out, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* out, size_t* count) {
  std::shared_ptr<Graph> graph;
  if (const CUresult result = Enter(handle, &graph)) return result;
  std::vector<GraphNode*> nodes;
  for (const auto& node : graph->nodes()) {
    if (node->dependencies.empty()) nodes.push_back(node.get());
  }
  return List(nodes, out, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return ListEdges(graph, from, to, count);
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  const CUresult result = ListEdges(graph, from, to, count);
  if (result == CUDA_SUCCESS && data != nullptr && from != nullptr)
    std::fill_n(data, *count, CUgraphEdgeData{});
  return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return Dependencies(node, out, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                       size_t* count) {
  const CUresult result = Dependencies(node, out, count);
  if (result == CUDA_SUCCESS && data != nullptr && out != nullptr)
    std::fill_n(data, *count, CUgraphEdgeData{});
  return result;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* out, size_t* count) {
  return DependentNodes(node, out, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                         size_t* count) {
  const CUresult result = DependentNodes(node, out, count);
  if (result == CUDA_SUCCESS && data != nullptr && out != nullptr)
    std::fill_n(data, *count, CUgraphEdgeData{});
  return result;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  return ChangeEdges(graph, from, to, count, true);
}
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}
CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                      const CUgraphEdgeData*, size_t count) {
  return ChangeEdges(graph, from, to, count, false);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  node->graph.Remove(*node);
  return CUDA_SUCCESS;
}

}  // extern "C"
