// SPDX-License-Identifier: Apache-2.0
// Copy nodes: boxes, lines, and lines that begin in a device variable.
#include "client-shim/cudart/code/symbol.h"
#include "client-shim/cudart/memory/copy.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

CUcontext Current() {
  CUcontext context = nullptr;
  return g_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : nullptr;
}

// What is done with the copy once its parameters are the driver's.
struct Add {
  cudaGraphNode_t* node;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
  cudaError_t operator()(const CUDA_MEMCPY3D& copy) const {
    return FromDriver(
        g_driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, Current()));
  }
};
struct Set {
  cudaGraphNode_t node;
  cudaError_t operator()(const CUDA_MEMCPY3D& copy) const {
    return FromDriver(g_driver.cuGraphMemcpyNodeSetParams(node, &copy));
  }
};
struct SetInExec {
  cudaGraphExec_t exec;
  cudaGraphNode_t node;
  cudaError_t operator()(const CUDA_MEMCPY3D& copy) const {
    return FromDriver(g_driver.cuGraphExecMemcpyNodeSetParams(exec, node, &copy, Current()));
  }
};

template <typename Do>
cudaError_t Box(const cudaMemcpy3DParms* params, Do act) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy;
  if (cudaError_t error = ToDriver(*params, &copy); error != cudaSuccess) return error;
  return act(copy);
}

template <typename Do>
cudaError_t Line(void* dst, const void* src, size_t count, cudaMemcpyKind kind, Do act) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  return act(Linear(dst, src, count, kind));
}

template <typename Do>
cudaError_t ToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                     cudaMemcpyKind kind, Do act) {
  if (!MayCopyToDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* dst = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &dst); error != cudaSuccess) return error;
  return act(Linear(dst, src, count, kind));
}

template <typename Do>
cudaError_t FromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                       cudaMemcpyKind kind, Do act) {
  if (!MayCopyFromDevice(kind)) return cudaErrorInvalidMemcpyDirection;
  void* src = nullptr;
  if (cudaError_t error = InSymbol(symbol, offset, count, &src); error != cudaSuccess) return error;
  return act(Linear(dst, src, count, kind));
}

}  // namespace

cudaError_t Call_cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                        const cudaGraphNode_t* dependencies, size_t number,
                                        const cudaMemcpy3DParms* params) {
  return Box(params, Add{node, graph, dependencies, number});
}

cudaError_t Call_cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies, size_t number,
                                          void* dst, const void* src, size_t count,
                                          cudaMemcpyKind kind) {
  return Line(dst, src, count, kind, Add{node, graph, dependencies, number});
}

cudaError_t Call_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t number,
                                                const void* symbol, const void* src, size_t count,
                                                size_t offset, cudaMemcpyKind kind) {
  return ToSymbol(symbol, src, count, offset, kind, Add{node, graph, dependencies, number});
}

cudaError_t Call_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies,
                                                  size_t number, void* dst, const void* symbol,
                                                  size_t count, size_t offset,
                                                  cudaMemcpyKind kind) {
  return FromSymbol(dst, symbol, count, offset, kind, Add{node, graph, dependencies, number});
}

cudaError_t Call_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* params) {
  if (params == nullptr) return cudaErrorInvalidValue;
  CUDA_MEMCPY3D copy = {};
  CUresult result = g_driver.cuGraphMemcpyNodeGetParams(node, &copy);
  return result != CUDA_SUCCESS ? FromDriver(result) : FromDriver(copy, params);
}

cudaError_t Call_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                              const cudaMemcpy3DParms* params) {
  return Box(params, Set{node});
}

cudaError_t Call_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* dst, const void* src,
                                                size_t count, cudaMemcpyKind kind) {
  return Line(dst, src, count, kind, Set{node});
}

cudaError_t Call_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol,
                                                      const void* src, size_t count, size_t offset,
                                                      cudaMemcpyKind kind) {
  return ToSymbol(symbol, src, count, offset, kind, Set{node});
}

cudaError_t Call_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* dst,
                                                        const void* symbol, size_t count,
                                                        size_t offset, cudaMemcpyKind kind) {
  return FromSymbol(dst, symbol, count, offset, kind, Set{node});
}

cudaError_t Call_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const cudaMemcpy3DParms* params) {
  return Box(params, SetInExec{exec, node});
}

cudaError_t Call_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    void* dst, const void* src, size_t count,
                                                    cudaMemcpyKind kind) {
  return Line(dst, src, count, kind, SetInExec{exec, node});
}

cudaError_t Call_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec,
                                                          cudaGraphNode_t node, const void* symbol,
                                                          const void* src, size_t count,
                                                          size_t offset, cudaMemcpyKind kind) {
  return ToSymbol(symbol, src, count, offset, kind, SetInExec{exec, node});
}

cudaError_t Call_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec,
                                                            cudaGraphNode_t node, void* dst,
                                                            const void* symbol, size_t count,
                                                            size_t offset, cudaMemcpyKind kind) {
  return FromSymbol(dst, symbol, count, offset, kind, SetInExec{exec, node});
}

}  // namespace farcall::cudart
