// SPDX-License-Identifier: Apache-2.0
// What nodes do: read and changed.
#include "cpu-device/driver/graph/graph_params.h"

#include <algorithm>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/graph/graph_exec.h"
#include "cpu-device/driver/graph/graph_memory.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {
namespace {

CUresult Enter(CUgraphNode handle, std::shared_ptr<GraphNode>* node) {
  if (const CUresult result = CheckInitialized()) return result;
  *node = GraphNodes().Find(handle);
  return *node == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

template <typename Params>
CUresult Get(CUgraphNode handle, Params* params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : ParamsOf(*node, params);
}

CUresult Set(CUgraphNode handle, const CUgraphNodeParams& params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (node->type != params.type) return CUDA_ERROR_INVALID_VALUE;
  NodeWork work;
  if (const CUresult result = WorkFrom(params, &work)) return result;
  Assign(std::move(work), node.get());
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult SetTyped(CUgraphNode handle, const Params* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : Set(handle, ParamsFrom(*params));
}

CUresult SetInExec(CUgraphExec handle, CUgraphNode node_handle, const CUgraphNodeParams& params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(node_handle, &node)) return result;
  const std::shared_ptr<GraphExec> exec = TheDriver().graph_execs.Find(handle);
  GraphNode* twin = exec == nullptr ? nullptr : exec->Twin(*node, params.type);
  if (twin == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params.type == CU_GRAPH_NODE_TYPE_GRAPH) {
    const std::shared_ptr<Graph> child = TheDriver().graphs.Find(params.graph.graph);
    CUgraphExecUpdateResultInfo info{};
    if (child == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!GraphExec::SameShape(*twin->child, *child, &info))
      return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    twin->child->CopyWork(*child);
    return CUDA_SUCCESS;
  }
  NodeWork work;
  if (const CUresult result = WorkFrom(params, &work)) return result;
  Assign(std::move(work), twin);
  return CUDA_SUCCESS;
}

template <typename Params>
CUresult SetTypedInExec(CUgraphExec exec, CUgraphNode node, const Params* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : SetInExec(exec, node, ParamsFrom(*params));
}

CUresult GetEvent(CUgraphNode handle, CUgraphNodeType type, CUevent* event) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (event == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  *event = node->event.event->handle();
  return CUDA_SUCCESS;
}

CUresult EnterKernel(CUgraphNode handle, std::shared_ptr<GraphNode>* node) {
  if (const CUresult result = Enter(handle, node)) return result;
  return (*node)->type == CU_GRAPH_NODE_TYPE_KERNEL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool IsKernelAttribute(CUlaunchAttributeID id) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace
}  // namespace farcall::cpu_device

using namespace farcall::cpu_device;

extern "C" {

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return Get(node, params);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_KERNEL_NODE_PARAMS_v2 wide{};
  if (const CUresult result = Get(node, &wide)) return result;
  *params = {wide.func,      wide.gridDimX,  wide.gridDimY,       wide.gridDimZ,     wide.blockDimX,
             wide.blockDimY, wide.blockDimZ, wide.sharedMemBytes, wide.kernelParams, wide.extra};
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return Get(node, params);
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return Get(node, params);
}
CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return Get(node, params);
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return Get(node, params);
}
CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}
CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* event) {
  return GetEvent(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (params == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
    return CUDA_ERROR_INVALID_VALUE;
  *params = {};
  params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  params->poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, node->memory->device};
  params->bytesize = node->memory->bytes;
  params->dptr = node->memory->address;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr* address) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (address == nullptr || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
    return CUDA_ERROR_INVALID_VALUE;
  *address = node->memory->address;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph* graph) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = Enter(handle, &node)) return result;
  if (graph == nullptr || node->child == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = node->child->handle();
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : Set(node, *params);
}
CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetTyped(node, params);
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return SetTyped(node, params);
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return SetTyped(node, params);
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return SetTyped(node, params);
}
CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return SetTyped(node, params);
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return SetTyped(node, params);
}
CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return Set(node, EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return Set(node, EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return params == nullptr ? CUDA_ERROR_INVALID_VALUE : SetInExec(exec, node, *params);
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* params, CUcontext) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return SetTypedInExec(exec, node, params);
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return SetInExec(exec, node, ChildParams(child));
}
CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetInExec(exec, node, EventParams(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}
CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return SetInExec(exec, node, EventParams(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       CUkernelNodeAttrValue* value) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = EnterKernel(handle, &node)) return result;
  if (value == nullptr || !IsKernelAttribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = node->attributes.find(attribute);
  *value = found == node->attributes.end() ? CUkernelNodeAttrValue{} : found->second;
  const LaunchConfig& config = std::get<KernelOp>(node->op).config;
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = config.cooperative;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue* value) {
  std::shared_ptr<GraphNode> node;
  if (const CUresult result = EnterKernel(handle, &node)) return result;
  if (value == nullptr || !IsKernelAttribute(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const auto& cluster = value->clusterDim;
  if (attribute == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
      (cluster.x > 1 || cluster.y > 1 || cluster.z > 1))
    return CUDA_ERROR_NOT_SUPPORTED;
  if (attribute == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
    std::get<KernelOp>(node->op).config.cooperative = value->cooperative != 0;
  node->attributes[attribute] = *value;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to_handle, CUgraphNode from_handle) {
  std::shared_ptr<GraphNode> to, from;
  if (const CUresult result = EnterKernel(to_handle, &to)) return result;
  if (const CUresult result = EnterKernel(from_handle, &from)) return result;
  to->attributes = from->attributes;
  std::get<KernelOp>(to->op).config.cooperative = std::get<KernelOp>(from->op).config.cooperative;
  return CUDA_SUCCESS;
}

}  // extern "C"
