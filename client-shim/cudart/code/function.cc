// SPDX-License-Identifier: Apache-2.0
// Kernels by symbol: attributes, names, handles.
#include <cstring>

#include "client-shim/cudart/code/registry.h"
#include "client-shim/cudart/convert.h"
#include "client-shim/cudart/device.h"
#include "generated/cudart/hand.h"

namespace farcall::cudart {
namespace {

struct Found {
  CUkernel kernel = nullptr;
  CUdevice device = 0;
};

cudaError_t Find(const void* symbol, Found* found) {
  if (cudaError_t error = FindKernel(symbol, &found->kernel); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuCtxGetDevice(&found->device));
}

}  // namespace

cudaError_t Call_cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* symbol) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  Found found;
  if (cudaError_t error = Find(symbol, &found); error != cudaSuccess) return error;
  std::memset(attributes, 0, offsetof(cudaFuncAttributes, reserved));
  CUresult result = CUDA_SUCCESS;
  auto get = [&](CUfunction_attribute attribute, auto* to) {
    int value = 0;
    if (result == CUDA_SUCCESS)
      result = g_driver.cuKernelGetAttribute(&value, attribute, found.kernel, found.device);
    *to = value;
  };
  get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &attributes->sharedSizeBytes);
  get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &attributes->constSizeBytes);
  get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &attributes->localSizeBytes);
  get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &attributes->maxThreadsPerBlock);
  get(CU_FUNC_ATTRIBUTE_NUM_REGS, &attributes->numRegs);
  get(CU_FUNC_ATTRIBUTE_PTX_VERSION, &attributes->ptxVersion);
  get(CU_FUNC_ATTRIBUTE_BINARY_VERSION, &attributes->binaryVersion);
  get(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &attributes->cacheModeCA);
  get(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &attributes->maxDynamicSharedSizeBytes);
  get(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &attributes->preferredShmemCarveout);
  get(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &attributes->clusterDimMustBeSet);
  get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &attributes->requiredClusterWidth);
  get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &attributes->requiredClusterHeight);
  get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &attributes->requiredClusterDepth);
  get(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
      &attributes->clusterSchedulingPolicyPreference);
  get(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
      &attributes->nonPortableClusterSizeAllowed);
  return FromDriver(result);
}

cudaError_t Call_cudaFuncSetAttribute(const void* symbol, cudaFuncAttribute attribute, int value) {
  Found found;
  if (cudaError_t error = Find(symbol, &found); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuKernelSetAttribute(As<CUfunction_attribute>(attribute), value,
                                                  found.kernel, found.device));
}

cudaError_t Call_cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                                 int value, int device) {
  return FromDriver(
      g_driver.cuKernelSetAttribute(As<CUfunction_attribute>(attribute), value, kernel, device));
}

cudaError_t Call_cudaFuncSetCacheConfig(const void* symbol, cudaFuncCache config) {
  Found found;
  if (cudaError_t error = Find(symbol, &found); error != cudaSuccess) return error;
  return FromDriver(
      g_driver.cuKernelSetCacheConfig(found.kernel, As<CUfunc_cache>(config), found.device));
}

cudaError_t Call_cudaFuncSetSharedMemConfig(const void* symbol, cudaSharedMemConfig config) {
  CUfunction function = nullptr;
  if (cudaError_t error = Call_cudaGetFuncBySymbol(&function, symbol); error != cudaSuccess)
    return error;
  return FromDriver(g_driver.cuFuncSetSharedMemConfig(function, As<CUsharedconfig>(config)));
}

cudaError_t Call_cudaFuncGetName(const char** name, const void* symbol) {
  if (name == nullptr) return cudaErrorInvalidValue;
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(symbol, &kernel); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuKernelGetName(name, kernel));
}

cudaError_t Call_cudaFuncGetParamInfo(const void* symbol, size_t index, size_t* offset,
                                      size_t* size) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = FindKernel(symbol, &kernel); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuKernelGetParamInfo(kernel, index, offset, size));
}

cudaError_t Call_cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  CUkernel kernel = nullptr;
  CUfunction unwanted = nullptr;
  if (function == nullptr) function = &unwanted;  // allowed: only asks whether there is one

  if (cudaError_t error = FindKernelOfSymbol(symbol, &kernel); error != cudaSuccess) return error;
  return FromDriver(g_driver.cuKernelGetFunction(function, kernel));
}

cudaError_t Call_cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  if (kernel == nullptr) return cudaErrorInvalidValue;
  return FindKernelOfSymbol(symbol, kernel);
}

}  // namespace farcall::cudart
