// SPDX-License-Identifier: Apache-2.0
// Graph calls that need the context or the side.
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/enter.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {

cudaError_t Call_cudaGraphInstantiateWithParams(Side side, cudaGraphExec_t* exec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams* params) {
  if (params == nullptr) return cudaErrorInvalidValue;
  cudaGraphInstantiateParams given = *params;
  if (side == Side::kPerThread) given.uploadStream = PerThread(given.uploadStream);
  CUresult result = Lower(g_driver.cuGraphInstantiateWithParams, exec, graph, &given);
  params->errNode_out = given.errNode_out;
  params->result_out = given.result_out;
  return FromDriver(result);
}

cudaError_t Call_cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                     cudaGraphExecUpdateResultInfo* info) {
  cudaGraphExecUpdateResultInfo unwanted;
  return FromDriver(
      Lower(g_driver.cuGraphExecUpdate_v2, exec, graph, info != nullptr ? info : &unwanted));
}

cudaError_t Call_cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle,
                                                  cudaGraph_t graph, unsigned int value,
                                                  unsigned int flags) {
  CUcontext context = nullptr;
  CUresult result = g_driver.cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS) return FromDriver(result);
  return FromDriver(
      Lower(g_driver.cuGraphConditionalHandleCreate, handle, graph, context, value, flags));
}

}  // namespace farcall::cudart
