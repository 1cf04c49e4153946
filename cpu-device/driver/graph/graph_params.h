// SPDX-License-Identifier: Apache-2.0
// CUDA's node parameters, to and from what a node does. CUgraphNodeParams stands for them all; the
// structs of one type are brought into it.
#pragma once

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/graph.h"

namespace farcall::cpu_device {

CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v1& params);
CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v2& params);
CUgraphNodeParams ParamsFrom(const CUDA_MEMCPY3D& params);
CUgraphNodeParams ParamsFrom(const CUDA_MEMSET_NODE_PARAMS& params);
CUgraphNodeParams ParamsFrom(const CUDA_HOST_NODE_PARAMS& params);
CUgraphNodeParams ParamsFrom(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params);
CUgraphNodeParams EventParams(CUgraphNodeType type, CUevent event);
CUgraphNodeParams ChildParams(CUgraph graph);

// What a node is to do, checked as the call made outside a graph checks it.
struct NodeWork {
  Op op;
  EventOp event;
  std::optional<CUDA_MEMCPY3D> copy_params;
};
// Of types that carry no graph and no memory; NOT_SUPPORTED for those.
CUresult WorkFrom(const CUgraphNodeParams& params, NodeWork* work);
void Assign(NodeWork work, GraphNode* node);

// Pointers in the result belong to the node and live until its parameters change. INVALID_VALUE: a
// node of another type.
CUresult ParamsOf(GraphNode& node, CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult ParamsOf(GraphNode& node, CUDA_MEMCPY3D* params);
CUresult ParamsOf(GraphNode& node, CUDA_MEMSET_NODE_PARAMS* params);
CUresult ParamsOf(GraphNode& node, CUDA_HOST_NODE_PARAMS* params);
CUresult ParamsOf(GraphNode& node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params);

}  // namespace farcall::cpu_device
