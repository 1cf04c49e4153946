// SPDX-License-Identifier: Apache-2.0
// The driver calls that collectives are made of, from the process's libcuda.so.1. Nothing here
// knows that it is ours.
#pragma once

#include <cuda.h>

#include "client-shim/nccl/base/api.h"

namespace farcall::nccl {

// clang-format off
#define FARCALL_NCCL_DRIVER_CALLS(X)                                                              \
  X(cuInit) X(cuCtxGetCurrent) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxGetDevice)     \
  X(cuCtxSetCurrent) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2)                  \
  X(cuDeviceGetCount) X(cuCtxEnablePeerAccess)                                                    \
  X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemsetD8_v2) X(cuMemsetD32Async) X(cuMemcpyDtoDAsync_v2)   \
  X(cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemHostAlloc)            \
  X(cuMemFreeHost) X(cuLaunchHostFunc)                                                            \
  X(cuStreamWaitValue32_v2) X(cuStreamWriteValue32_v2) X(cuStreamIsCapturing)                     \
  X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamWaitEvent)             \
  X(cuEventCreate) X(cuEventRecord) X(cuEventSynchronize) X(cuEventDestroy_v2)                    \
  X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleUnload) X(cuLaunchKernel)                  \
  X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle_v2) X(cuIpcCloseMemHandle) X(cuGetErrorName)
// clang-format on

struct Driver {
#define FARCALL_NCCL_DECLARE(name) decltype(&::name) name = nullptr;
  FARCALL_NCCL_DRIVER_CALLS(FARCALL_NCCL_DECLARE)
#undef FARCALL_NCCL_DECLARE
};

// Null, with LastError() set, if there is no driver library or it lacks one of these calls.
const Driver* FindDriver();

// A failed driver call as NCCL tells it.
ncclResult_t CudaFailure(const char* call, CUresult result);

// Makes a context current for a scope.
class InContext {
 public:
  explicit InContext(CUcontext context);
  ~InContext();
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace farcall::nccl

// In a function that returns ncclResult_t: a driver call, or its failure.
#define FARCALL_NCCL_CUDA(name, ...)                                        \
  do {                                                                      \
    if (CUresult called = ::farcall::nccl::FindDriver()->name(__VA_ARGS__); \
        called != CUDA_SUCCESS)                                             \
      return ::farcall::nccl::CudaFailure(#name, called);                   \
  } while (false)
