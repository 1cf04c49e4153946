// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/driver/graph_params.h"

#include "cpu-device/driver/context.h"
#include "cpu-device/driver/copy.h"
#include "cpu-device/driver/device.h"
#include "cpu-device/driver/launch.h"
#include "cpu-device/driver/module.h"

namespace farcall::cpu_device {

CUresult OpFrom(const CUDA_KERNEL_NODE_PARAMS_v2& params, Op* op) {
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

CUresult OpFrom(const CUDA_MEMSET_NODE_PARAMS& params, Op* op) {
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

CUresult OpFrom(const CUDA_HOST_NODE_PARAMS& params, Op* op) {
  if (params.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *op = HostOp{params.fn, params.userData};
  return CUDA_SUCCESS;
}

CUDA_KERNEL_NODE_PARAMS_v2 Widen(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  CUDA_KERNEL_NODE_PARAMS_v2 wide{};
  wide.func = params.func;
  wide.gridDimX = params.gridDimX;
  wide.gridDimY = params.gridDimY;
  wide.gridDimZ = params.gridDimZ;
  wide.blockDimX = params.blockDimX;
  wide.blockDimY = params.blockDimY;
  wide.blockDimZ = params.blockDimZ;
  wide.sharedMemBytes = params.sharedMemBytes;
  wide.kernelParams = params.kernelParams;
  wide.extra = params.extra;
  return wide;
}

CUresult ParamsOf(GraphNode& node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  auto* kernel = std::get_if<KernelOp>(&node.op);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *params = {};
  params->func = kernel->function->handle();
  params->gridDimX = kernel->config.grid.x;
  params->gridDimY = kernel->config.grid.y;
  params->gridDimZ = kernel->config.grid.z;
  params->blockDimX = kernel->config.block.x;
  params->blockDimY = kernel->config.block.y;
  params->blockDimZ = kernel->config.block.z;
  params->sharedMemBytes = kernel->config.dynamic_shared_bytes;
  node.param_pointers.clear();
  for (const KernelParam& param : kernel->function->info().params) {
    node.param_pointers.push_back(kernel->params.data() + param.offset_bytes);
  }
  params->kernelParams = node.param_pointers.data();
  params->ctx = kernel->function->context().handle();
  return CUDA_SUCCESS;
}

CUresult ParamsOf(GraphNode& node, CUDA_MEMCPY3D* params) {
  const auto* copy = std::get_if<CopyOp>(&node.op);
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
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

}  // namespace farcall::cpu_device
