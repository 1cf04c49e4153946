// SPDX-License-Identifier: Apache-2.0
// Generated from cuda.h and codegen/spec/cuda/: the C entries of libcuda.so.1, declared as the header does.
#include <cuda.h>
#include <cudaProfiler.h>

#include "client-shim/core/roles.h"
#include "client-shim/core/session/session_face.h"
#include "generated/client/calls.h"

#define FARCALL_ENTRY extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI

using farcall::CallId;
using farcall::client::Needs;
using farcall::client::PerThread;

FARCALL_ENTRY cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  const CUresult refused = farcall::client::Enter(CallId::cuCtxGetLimit, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::RoundTrip_cuCtxGetLimit(pvalue, limit);
}

FARCALL_ENTRY cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount) {
  const CUresult refused = farcall::client::Enter(CallId::cuMemcpyPeer, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::Call_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext,
                                                 ByteCount, nullptr);
}

FARCALL_ENTRY cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                CUcontext srcContext, size_t ByteCount) {
  const CUresult refused = farcall::client::Enter(CallId::cuMemcpyPeer_ptds, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::Call_cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice, srcContext,
                                                 ByteCount, CU_STREAM_PER_THREAD);
}

FARCALL_ENTRY cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  const CUresult refused = farcall::client::Enter(CallId::cuMemcpyHtoD_v2_ptds, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::Call_cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount, CU_STREAM_PER_THREAD);
}

FARCALL_ENTRY cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                  unsigned int gridDimZ, unsigned int blockDimX,
                                  unsigned int blockDimY, unsigned int blockDimZ,
                                  unsigned int sharedMemBytes, CUstream hStream,
                                  void** kernelParams, void** extra) {
  const CUresult refused = farcall::client::Enter(CallId::cuLaunchKernel_ptsz, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::Call_cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                              blockDimZ, sharedMemBytes, PerThread(hStream),
                                              kernelParams, extra);
}

FARCALL_ENTRY cuStreamDestroy(CUstream hStream) {
  const CUresult refused = farcall::client::Enter(CallId::cuStreamDestroy, Needs::kContext);
  if (refused != CUDA_SUCCESS) { return refused; }
  return farcall::client::Call_cuStreamDestroy_v2(hStream);
}

FARCALL_ENTRY cuWaitExternalSemaphoresAsync(
    const CUexternalSemaphore* extSemArray, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS* paramsArray,
    unsigned int numExtSems, CUstream stream) {
  return farcall::client::NotSupported(CallId::cuWaitExternalSemaphoresAsync);
}

// Names of other headers, or of newer ones: whatever arguments the caller pushes.
FARCALL_ENTRY cuGLInit() {
  return farcall::client::NotSupported(CallId::cuGLInit);
}
