// SPDX-License-Identifier: Apache-2.0
// What nodes do: told, and changed.
#include <cstring>

#include "client-shim/core/session/calls.h"
#include "client-shim/cuda/objects/graph_memory.h"
#include "client-shim/cuda/objects/graph_params.h"
#include "client-shim/cuda/state/graph_model.h"
#include "generated/client/calls.h"

namespace farcall::client {

namespace {

// The node and what it does; INVALID_VALUE for a node of another type.
CUresult Enter(CUgraphNode handle, CUgraphNodeType type, const void* out, GraphNode** node) {
  *node = FindNode(handle);
  if (*node == nullptr || out == nullptr || (*node)->work->type() != type)
    return CUDA_ERROR_INVALID_VALUE;
  return LearnWork(*node);
}

// `tell` writes what was asked of the node's work to `out`.
template <typename Out, typename TellWork>
CUresult Ask(CUgraphNode hNode, CUgraphNodeType type, Out* out, TellWork tell) {
  auto lock = LockGraphs();
  GraphNode* node = nullptr;
  CUresult status = Enter(hNode, type, out, &node);
  if (status == CUDA_SUCCESS) tell(*node->work);
  return status;
}

CUresult GetEvent(CUgraphNode hNode, CUgraphNodeType type, CUevent* event) {
  return Ask(hNode, type, event,
             [&](const GraphWork& work) { *event = work.given.eventWait.event; });
}

CUresult Set(CUgraphNode hNode, const CUgraphNodeParams& params) {
  auto lock = LockGraphs();
  GraphNode* node = FindNode(hNode);
  if (node == nullptr || node->work->type() != params.type) return CUDA_ERROR_INVALID_VALUE;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      break;
  }
  auto work = std::make_shared<GraphWork>();
  CUresult status = MakeWork(params, node->graph, work.get());
  if (status != CUDA_SUCCESS) return status;
  // What a graph inside another one, or a clone, does with host memory was noted when it was made.
  bool copied = (node->graph->inner && !node->graph->body) || node->graph->inherited != nullptr;
  if (copied && params.type == CU_GRAPH_NODE_TYPE_MEMCPY) status = LearnWork(node);
  if (status != CUDA_SUCCESS) return status;
  if (copied && (TouchesHost(*node->work) || !work->copies.empty() || work->host_function != 0))
    return NotSupported(CallId::cuGraphNodeSetParams);
  Builder body;
  body.Put<uint64_t>(node->handle);
  PutWork(&body, *work);
  status = PostGraph(CallId::cuGraphNodeSetParams, body);
  if (status == CUDA_SUCCESS) node->work = std::move(work);
  return status;
}

template <typename Params>
CUresult SetTyped(CUgraphNode node, const Params* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : Set(node, ParamsFrom(*params));
}

bool IsKernelNode(CUgraphNode handle) {
  auto lock = LockGraphs();
  GraphNode* node = FindNode(handle);
  return node != nullptr && node->work->type() == CU_GRAPH_NODE_TYPE_KERNEL;
}

}  // namespace

CUresult Call_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  auto lock = LockGraphs();
  GraphNode* node = FindNode(hNode);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->work->type();
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                            CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, [&](const GraphWork& work) {
    std::memcpy(nodeParams, &work.given.kernel, sizeof(*nodeParams));
  });
}

CUresult Call_cuGraphKernelNodeGetParams(CUgraphNode hNode,
                                         CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, [&](const GraphWork& work) {
    std::memcpy(nodeParams, &work.given.kernel, sizeof(*nodeParams));
    // A kernel of a library has no function in the older form but itself.
    if (nodeParams->func == nullptr)
      nodeParams->func = reinterpret_cast<CUfunction>(work.given.kernel.kern);
  });
}

CUresult Call_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams,
             [&](const GraphWork& work) { *nodeParams = work.given.memcpy.copyParams; });
}

CUresult Call_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, [&](const GraphWork& work) {
    std::memcpy(nodeParams, &work.given.memset, sizeof(*nodeParams));
  });
}

CUresult Call_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, [&](const GraphWork& work) {
    *nodeParams = {work.given.host.fn, work.given.host.userData};
  });
}

CUresult Call_cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                             CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams_out, [&](const GraphWork& work) {
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& ops = work.given.memOp;
    *nodeParams_out = {ops.ctx, ops.count, ops.paramArray, ops.flags};
  });
}

CUresult Call_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return GetEvent(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}
CUresult Call_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent* event_out) {
  return GetEvent(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult Call_cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
                                           CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out, [&](const GraphWork& work) {
    const GraphMemory& memory = *work.memory;
    const std::vector<CUmemAccessDesc>& accesses = work.accesses;
    *params_out = {memory.props, accesses.data(), accesses.size(), memory.bytes, memory.address};
  });
}

CUresult Call_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  return Ask(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out,
             [&](const GraphWork& work) { *dptr_out = work.memory->address; });
}

CUresult Call_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  auto lock = LockGraphs();
  GraphNode* node = FindNode(hNode);
  if (node == nullptr || phGraph == nullptr || node->work->type() != CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_INVALID_VALUE;
  if (node->child == 0) {
    CUresult status = CUDA_SUCCESS;
    uint64_t name = NewHandle(HandleKind::kGraph, &status);
    if (status != CUDA_SUCCESS) return status;
    Builder body;
    body.Put<uint64_t>(node->handle);
    body.Put<uint64_t>(name);
    status = PostGraph(CallId::cuGraphChildGraphNodeGetGraph, body);
    if (status != CUDA_SUCCESS) return status;
    node->child = name;
    std::shared_ptr<Graph> inner = KeepGraph(name);
    inner->inner = true;
    inner->known = false;
  }
  *phGraph = AsHandle<CUgraph>(node->child);
  return CUDA_SUCCESS;
}

CUresult Call_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return nodeParams == nullptr ? CUDA_ERROR_INVALID_VALUE : Set(hNode, *nodeParams);
}
CUresult Call_cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                         const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                         const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                             const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return SetTyped(hNode, nodeParams);
}
CUresult Call_cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return Set(hNode, EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult Call_cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event) {
  return Set(hNode, EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult Call_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  if (!IsKernelNode(dst) || !IsKernelNode(src)) return CUDA_ERROR_INVALID_VALUE;
  return Post_cuGraphKernelNodeCopyAttributes(dst, src);
}

CUresult Call_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                            const CUkernelNodeAttrValue* value) {
  if (!IsKernelNode(hNode) || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return Post_cuGraphKernelNodeSetAttribute(hNode, attr, value);
}

}  // namespace farcall::client
