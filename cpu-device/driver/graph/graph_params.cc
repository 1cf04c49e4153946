// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/graph/graph_params.h"

#include <cstring>

#include "cpu-device/driver/state/context.h"
#include "cpu-device/driver/state/device.h"
#include "cpu-device/driver/state/event.h"
#include "cpu-device/driver/state/executor.h"
#include "cpu-device/driver/state/memop.h"
#include "cpu-device/driver/state/module.h"
#include "cpu-device/driver/work/copy.h"
#include "cpu-device/driver/work/launch.h"

namespace farcall::cpu_device {

namespace {

constexpr uint64_t kLimit = 1ull << 40;

CUresult OpFrom(const CUDA_KERNEL_NODE_PARAMS_v3& params, Op* op) {
  std::shared_ptr<Context> context;
  if (params.ctx != nullptr) {
    context = TheDriver().contexts.Find(params.ctx);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  } else if (const CUresult result = CurrentContext(&context)) {
    return result;
  }
  const void* handle = params.func != nullptr ? static_cast<const void*>(params.func) : params.kern;
  std::shared_ptr<Function> function;
  if (const CUresult result = ResolveFunction(*context, handle, &function)) return result;
  LaunchConfig config;
  config.grid = {params.gridDimX, params.gridDimY, params.gridDimZ};
  config.block = {params.blockDimX, params.blockDimY, params.blockDimZ};
  config.dynamic_shared_bytes = params.sharedMemBytes;
  KernelOp kernel;
  if (const CUresult result =
          PrepareLaunch(function, config, params.kernelParams, params.extra, &kernel))
    return result;
  PrepareDeviceHeap(*context);
  if (const CUresult result = function->Load()) return result;
  *op = std::move(kernel);
  return CUDA_SUCCESS;
}

CUresult OpFrom(const CUDA_MEMCPY3D& params, Op* op) {
  CopyOp copy;
  End dst, src;
  if (const CUresult result = FromMemcpy3D(&params, &copy, &dst, &src)) return result;
  *op = copy;
  return CUDA_SUCCESS;
}

CUresult OpFrom(const CUDA_MEMSET_NODE_PARAMS_v2& params, Op* op) {
  if (params.width == 0 || params.width > kLimit || params.height > kLimit || params.pitch > kLimit)
    return CUDA_ERROR_INVALID_VALUE;
  if (params.elementSize != 1 && params.elementSize != 2 && params.elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  if (params.height > 1 && params.pitch < params.width * params.elementSize)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t bytes = (params.height - 1) * params.pitch + params.width * params.elementSize;
  if (params.height == 0 || params.dst % params.elementSize != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!TheDriver().ranges.Accessible(params.dst, bytes, 0, true)) return CUDA_ERROR_INVALID_VALUE;
  *op = MemsetOp{params.dst,         params.pitch, params.value,
                 params.elementSize, params.width, params.height};
  return CUDA_SUCCESS;
}

CUresult OpFrom(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& params, Op* op) {
  std::shared_ptr<Context> context;
  if (params.ctx != nullptr) {
    context = TheDriver().contexts.Find(params.ctx);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  } else if (const CUresult result = CurrentContext(&context)) {
    return result;
  }
  if (params.flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = CheckMemOps(*context, params.paramArray, params.count)) return result;
  *op = MemOp{{params.paramArray, params.paramArray + params.count}};
  return CUDA_SUCCESS;
}

CUresult OpFrom(const CUDA_HOST_NODE_PARAMS_v2& params, Op* op) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *op = HostOp{params.fn, params.userData};
  return CUDA_SUCCESS;
}

CUresult EventFrom(CUevent handle, bool record, EventOp* event) {
  event->event = TheDriver().events.Find(handle);
  event->record = record;
  return event->event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUgraphNodeParams Typed(CUgraphNodeType type) {
  CUgraphNodeParams params{};
  params.type = type;
  return params;
}

}  // namespace

CUresult WorkFrom(const CUgraphNodeParams& params, NodeWork* work) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return OpFrom(params.kernel, &work->op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params.memcpy.flags != 0) return CUDA_ERROR_INVALID_VALUE;
      work->copy_params = params.memcpy.copyParams;
      return OpFrom(params.memcpy.copyParams, &work->op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return OpFrom(params.memset, &work->op);
    case CU_GRAPH_NODE_TYPE_HOST:
      return OpFrom(params.host, &work->op);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return EventFrom(params.eventWait.event, false, &work->event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return EventFrom(params.eventRecord.event, true, &work->event);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return OpFrom(params.memOp, &work->op);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void Assign(NodeWork work, GraphNode* node) {
  // A cooperative launch is an attribute of the node, not of its parameters.
  const auto* before = std::get_if<KernelOp>(&node->op);
  auto* kernel = std::get_if<KernelOp>(&work.op);
  if (before != nullptr && kernel != nullptr)
    kernel->config.cooperative = before->config.cooperative;
  node->op = std::move(work.op);
  node->event = std::move(work.event);
  node->copy_params = work.copy_params;
}

CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v2& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_KERNEL);
  static_assert(sizeof(wide.kernel) == sizeof(params));
  memcpy(&wide.kernel, &params, sizeof(params));
  return wide;
}

CUgraphNodeParams ParamsFrom(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_KERNEL);
  memcpy(&wide.kernel, &params, sizeof(params));
  return wide;
}

CUgraphNodeParams ParamsFrom(const CUDA_MEMCPY3D& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_MEMCPY);
  wide.memcpy.copyParams = params;
  return wide;
}

CUgraphNodeParams ParamsFrom(const CUDA_MEMSET_NODE_PARAMS& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_MEMSET);
  memcpy(&wide.memset, &params, sizeof(params));
  return wide;
}

CUgraphNodeParams ParamsFrom(const CUDA_HOST_NODE_PARAMS& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_HOST);
  wide.host = {params.fn, params.userData};
  return wide;
}

CUgraphNodeParams ParamsFrom(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  wide.memOp = {params.ctx, params.count, params.paramArray, params.flags};
  return wide;
}

CUgraphNodeParams EventParams(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams wide = Typed(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
    wide.eventRecord.event = event;
  else
    wide.eventWait.event = event;
  return wide;
}

CUgraphNodeParams ChildParams(CUgraph graph) {
  CUgraphNodeParams wide = Typed(CU_GRAPH_NODE_TYPE_GRAPH);
  wide.graph.graph = graph;
  return wide;
}

CUresult ParamsOf(GraphNode& node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  auto* kernel = std::get_if<KernelOp>(&node.op);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params = {};
  params->func = kernel->function->handle();
  params->kern = kernel->function->kernel_handle;
  params->gridDimX = kernel->config.grid.x;
  params->gridDimY = kernel->config.grid.y;
  params->gridDimZ = kernel->config.grid.z;
  params->blockDimX = kernel->config.block.x;
  params->blockDimY = kernel->config.block.y;
  params->blockDimZ = kernel->config.block.z;
  params->sharedMemBytes = kernel->config.dynamic_shared_bytes;
  node.param_pointers.clear();
  for (const KernelParam& param : kernel->function->info().params)
    node.param_pointers.push_back(kernel->params.data() + param.offset_bytes);
  params->kernelParams = node.param_pointers.data();
  params->ctx = kernel->function->context().handle();
  return CUDA_SUCCESS;
}

CUresult ParamsOf(GraphNode& node, CUDA_MEMCPY3D* params) {
  const auto* copy = std::get_if<CopyOp>(&node.op);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node.copy_params.has_value()) {
    *params = *node.copy_params;
    return CUDA_SUCCESS;
  }
  *params = {};
  params->srcMemoryType = params->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  params->srcDevice = copy->src;
  params->srcPitch = copy->src_pitch;
  params->srcHeight = copy->src_height;
  params->dstDevice = copy->dst;
  params->dstPitch = copy->dst_pitch;
  params->dstHeight = copy->dst_height;
  params->WidthInBytes = copy->width;
  params->Height = copy->height;
  params->Depth = copy->depth;
  return CUDA_SUCCESS;
}

CUresult ParamsOf(GraphNode& node, CUDA_MEMSET_NODE_PARAMS* params) {
  const auto* set = std::get_if<MemsetOp>(&node.op);
  if (set == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params = {set->dst, set->pitch, set->value, set->element, set->width, set->height};
  return CUDA_SUCCESS;
}

CUresult ParamsOf(GraphNode& node, CUDA_HOST_NODE_PARAMS* params) {
  const auto* host = std::get_if<HostOp>(&node.op);
  if (host == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params = {host->function, host->user_data};
  return CUDA_SUCCESS;
}

CUresult ParamsOf(GraphNode& node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  auto* ops = std::get_if<MemOp>(&node.op);
  if (ops == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params = {};
  params->count = static_cast<unsigned>(ops->ops.size());
  params->paramArray = ops->ops.data();
  return CUDA_SUCCESS;
}

}  // namespace farcall::cpu_device
