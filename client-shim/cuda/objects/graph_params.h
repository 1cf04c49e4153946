// SPDX-License-Identifier: Apache-2.0
// The parameter structs of one node type, as the one that stands for them all.
#pragma once

#include <cuda.h>

#include <cstring>

namespace farcall::client {

inline CUgraphNodeParams ParamsOfType(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

inline CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v2& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof(wide.kernel) == sizeof(params));
  std::memcpy(&wide.kernel, &params, sizeof(params));
  return wide;
}

// The newer struct begins with the older one.
inline CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&wide.kernel, &params, sizeof(params));
  return wide;
}

inline CUgraphNodeParams ParamsFrom(const CUDA_MEMCPY3D& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_MEMCPY);
  wide.memcpy.copyParams = params;
  return wide;
}

inline CUgraphNodeParams ParamsFrom(const CUDA_MEMSET_NODE_PARAMS& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_MEMSET);
  std::memcpy(&wide.memset, &params, sizeof(params));
  return wide;
}

inline CUgraphNodeParams ParamsFrom(const CUDA_HOST_NODE_PARAMS& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_HOST);
  wide.host = {params.fn, params.userData};
  return wide;
}

inline CUgraphNodeParams ParamsFrom(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  wide.memOp = {params.ctx, params.count, params.paramArray, params.flags};
  return wide;
}

inline CUgraphNodeParams EventParams(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams wide = ParamsOfType(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    wide.eventRecord.event = event;
  else
    wide.eventWait.event = event;
  return wide;
}

inline CUgraphNodeParams ChildParams(CUgraph graph) {
  CUgraphNodeParams wide = ParamsOfType(CU_GRAPH_NODE_TYPE_GRAPH);
  wide.graph.graph = graph;
  return wide;
}

}  // namespace farcall::client
