// SPDX-License-Identifier: Apache-2.0
// Nodes whose parameters differ in shape: kernels by symbol, and the union of all kinds.
#include <cstring>

#include "client-shim/cudart/code/registry.h"
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/memory/copy.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

CUcontext Current() {
  CUcontext context = nullptr;
  return g_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

// cudaKernelNodeParams and its second version, CUDA_KERNEL_NODE_PARAMS_v2 and _v3: same names.
template <typename From, typename To>
cudaError_t Fill(const From& from, To* to) {
  *to = {};
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(from.func, &kernel); error != cudaSuccess) return error;
  to->kern = kernel;
  to->ctx = Current();
  to->gridDimX = from.gridDim.x, to->gridDimY = from.gridDim.y, to->gridDimZ = from.gridDim.z;
  to->blockDimX = from.blockDim.x, to->blockDimY = from.blockDim.y, to->blockDimZ = from.blockDim.z;
  to->sharedMemBytes = from.sharedMemBytes;
  to->kernelParams = from.kernelParams;
  to->extra = from.extra;
  return cudaSuccess;
}

cudaError_t ToDriver(const cudaKernelNodeParams* from, CUDA_KERNEL_NODE_PARAMS* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  return Fill(*from, to);
}

cudaError_t ToDriver(const cudaMemcpyNodeParams& from, CUDA_MEMCPY_NODE_PARAMS* to) {
  *to = {};
  to->flags = from.flags;
  to->copyCtx = Current();
  return cudart::ToDriver(from.copyParams, &to->copyParams);
}

cudaError_t ToDriver(const cudaMemsetParamsV2& from, CUDA_MEMSET_NODE_PARAMS_v2* to) {
  *to = {reinterpret_cast<CUdeviceptr>(from.dst),
         from.pitch,
         from.value,
         from.elementSize,
         from.width,
         from.height,
         Current()};
  return cudaSuccess;
}

cudaError_t ToDriver(const cudaConditionalNodeParams& from, CUDA_CONDITIONAL_NODE_PARAMS* to) {
  *to = {};
  to->handle = from.handle;
  to->type = static_cast<CUgraphConditionalNodeType>(from.type);
  to->size = from.size;
  to->ctx = Current();
  return cudaSuccess;
}

// The kinds whose parameters have one layout in both unions.
template <typename From, typename To>
cudaError_t Same(const From& from, To* to) {
  static_assert(sizeof(From) == sizeof(To));
  std::memcpy(to, &from, sizeof(*to));
  return cudaSuccess;
}

cudaError_t ToDriver(const cudaGraphNodeParams* from, CUgraphNodeParams* to) {
  if (from == nullptr) return cudaErrorInvalidValue;
  *to = {};
  to->type = static_cast<CUgraphNodeType>(from->type);
  switch (from->type) {
    case cudaGraphNodeTypeKernel:
      return Fill(from->kernel, &to->kernel);
    case cudaGraphNodeTypeMemcpy:
      return ToDriver(from->memcpy, &to->memcpy);
    case cudaGraphNodeTypeMemset:
      return ToDriver(from->memset, &to->memset);
    case cudaGraphNodeTypeConditional:
      return ToDriver(from->conditional, &to->conditional);
    case cudaGraphNodeTypeHost:
      return Same(from->host, &to->host);
    case cudaGraphNodeTypeGraph:
      return Same(from->graph, &to->graph);
    case cudaGraphNodeTypeWaitEvent:
      return Same(from->eventWait, &to->eventWait);
    case cudaGraphNodeTypeEventRecord:
      return Same(from->eventRecord, &to->eventRecord);
    case cudaGraphNodeTypeExtSemaphoreSignal:
      return Same(from->extSemSignal, &to->extSemSignal);
    case cudaGraphNodeTypeExtSemaphoreWait:
      return Same(from->extSemWait, &to->extSemWait);
    case cudaGraphNodeTypeMemAlloc:
      return Same(from->alloc, &to->alloc);
    case cudaGraphNodeTypeMemFree:
      return Same(from->free, &to->free);
    case cudaGraphNodeTypeEmpty:
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

// What adding a node tells the application through its parameters.
void Answer(const CUgraphNodeParams& from, cudaGraphNodeParams* to) {
  if (to->type == cudaGraphNodeTypeMemAlloc)
    to->alloc.dptr = reinterpret_cast<void*>(from.alloc.dptr);
  if (to->type == cudaGraphNodeTypeConditional)
    to->conditional.phGraph_out = from.conditional.phGraph_out;
}

}  // namespace

cudaError_t Call_cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* dependencies, size_t count,
                                        const cudaKernelNodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuGraphAddKernelNode_v2(node, graph, dependencies, count, &to));
}

cudaError_t Call_cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                              const cudaKernelNodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuGraphKernelNodeSetParams_v2(node, &to));
}

cudaError_t Call_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaKernelNodeParams* params) {
  CUDA_KERNEL_NODE_PARAMS to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuGraphExecKernelNodeSetParams_v2(exec, node, &to));
}

cudaError_t Call_cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_KERNEL_NODE_PARAMS from = {};
  CUresult result = g_driver.cuGraphKernelNodeGetParams_v2(node, &from);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  const void* symbol = SymbolOf(from.kern, from.func);
  if (symbol == nullptr) return cudaErrorInvalidDeviceFunction;
  *params = {const_cast<void*>(symbol),
             dim3(from.gridDimX, from.gridDimY, from.gridDimZ),
             dim3(from.blockDimX, from.blockDimY, from.blockDimZ),
             from.sharedMemBytes,
             from.kernelParams,
             from.extra};
  return cudaSuccess;
}

cudaError_t Call_cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* dependencies, size_t count,
                                        const cudaMemsetParams* params) {
  return FromDriver(
      Lower(g_driver.cuGraphAddMemsetNode, node, graph, dependencies, count, params, Current()));
}

cudaError_t Call_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaMemsetParams* params) {
  return FromDriver(Lower(g_driver.cuGraphExecMemsetNodeSetParams, exec, node, params, Current()));
}

cudaError_t Call_cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies,
                                  const cudaGraphEdgeData* edges, size_t count,
                                  cudaGraphNodeParams* params) {
  CUgraphNodeParams to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  CUresult result = Lower(g_driver.cuGraphAddNode_v2, node, graph, dependencies, edges, count, &to);
  if (result == CUDA_SUCCESS) Answer(to, params);
  return FromDriver(result);
}

cudaError_t Call_cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* params) {
  CUgraphNodeParams to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuGraphNodeSetParams(node, &to));
}

cudaError_t Call_cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            cudaGraphNodeParams* params) {
  CUgraphNodeParams to;
  if (cudaError_t error = ToDriver(params, &to); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuGraphExecNodeSetParams(exec, node, &to));
}

}  // namespace farcall::cudart
