// SPDX-License-Identifier: Apache-2.0
// CUDA's node parameter structs, to and from what a node does.
#pragma once

#include "cpu-device/driver/api.h"
#include "cpu-device/driver/graph.h"

namespace farcall::cpu_device {

// Errors as the call made outside a graph gives them.
CUresult OpFrom(const CUDA_KERNEL_NODE_PARAMS_v2& params, Op* op);
CUresult OpFrom(const CUDA_MEMCPY3D& params, Op* op);
CUresult OpFrom(const CUDA_MEMSET_NODE_PARAMS& params, Op* op);
CUresult OpFrom(const CUDA_HOST_NODE_PARAMS& params, Op* op);

CUDA_KERNEL_NODE_PARAMS_v2 Widen(const CUDA_KERNEL_NODE_PARAMS_v1& params);
// Pointers in the result belong to the node and live until its parameters change.
CUresult ParamsOf(GraphNode& node, CUDA_KERNEL_NODE_PARAMS_v2* params);
CUresult ParamsOf(GraphNode& node, CUDA_MEMCPY3D* params);
CUresult ParamsOf(GraphNode& node, CUDA_MEMSET_NODE_PARAMS* params);
CUresult ParamsOf(GraphNode& node, CUDA_HOST_NODE_PARAMS* params);

}  // namespace farcall::cpu_device
