// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

__global__ void Add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void __launch_bounds__(64) Bounded(int* out) {
  __shared__ int all[64];
  all[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = all[63 - threadIdx.x];
}

void NotAKernel() {}

void Attributes(const char* what, const void* kernel) {
  cudaFuncAttributes found;
  std::memset(&found, 0xEE, sizeof(found));
  std::printf("attributes of %s\n", what);
  T(cudaFuncGetAttributes(&found, kernel));
  V(found.sharedSizeBytes);
  V(found.constSizeBytes);
  V(found.localSizeBytes);
  V(found.maxThreadsPerBlock);
  V(found.numRegs);
  V(found.ptxVersion);
  V(found.binaryVersion);
  V(found.cacheModeCA);
  V(found.maxDynamicSharedSizeBytes);
  V(found.preferredShmemCarveout);
  V(found.clusterDimMustBeSet);
  V(found.clusterSchedulingPolicyPreference);
  V(found.nonPortableClusterSizeAllowed);
  V(found.reserved[3]);
}

}  // namespace

void TraceKernels() {
  auto add = reinterpret_cast<const void*>(Add);
  auto bounded = reinterpret_cast<const void*>(Bounded);
  auto wrong = reinterpret_cast<const void*>(NotAKernel);
  Attributes("Add", add);
  Attributes("Bounded", bounded);
  Attributes("no kernel", wrong);
  cudaFuncAttributes attributes;
  T(cudaFuncGetAttributes(nullptr, add));
  T(cudaFuncGetAttributes(&attributes, static_cast<const void*>(nullptr)));
  T(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 50000));
  T(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30));
  T(cudaFuncSetAttribute(add, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  T(cudaFuncSetAttribute(add, static_cast<cudaFuncAttribute>(1), 50));
  T(cudaFuncSetAttribute(wrong, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  Attributes("Add", add);
  T(cudaFuncSetCacheConfig(add, cudaFuncCachePreferShared));
  T(cudaFuncSetCacheConfig(wrong, cudaFuncCachePreferShared));
  T(cudaFuncSetCacheConfig(add, static_cast<cudaFuncCache>(17)));
  T(cudaFuncSetSharedMemConfig(add, cudaSharedMemBankSizeFourByte));
  const char* name = nullptr;
  T(cudaFuncGetName(&name, bounded));
  TEXT(name);
  T(cudaFuncGetName(&name, wrong));
  T(cudaFuncGetName(nullptr, add));
  size_t offset = 9, size = 9;
  for (int i = 0; i < 5; ++i) {
    T(cudaFuncGetParamInfo(add, i, &offset, &size));
    V(offset);
    V(size);
  }
  T(cudaFuncGetParamInfo(add, 0, nullptr, &size));
  T(cudaFuncGetParamInfo(wrong, 0, &offset, &size));
  cudaFunction_t function = nullptr;
  cudaKernel_t kernel = nullptr;
  T(cudaGetFuncBySymbol(&function, add));
  V(function != nullptr);
  T(cudaGetFuncBySymbol(&function, wrong));
  T(cudaGetFuncBySymbol(nullptr, add));
  T(cudaGetKernel(&kernel, add));
  V(kernel != nullptr);
  T(cudaGetKernel(&kernel, wrong));
  T(cudaGetKernel(nullptr, add));
  T(cudaGetKernel(&kernel, add));
  T(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 0));
  T(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024, 9));
  int blocks = -1;
  size_t dynamic = 0;
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 128, 0));
  V(blocks);
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, add, 128, 4096,
                                                           cudaOccupancyDisableCachingOverride));
  V(blocks);
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0));
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 5000, 0));
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, wrong, 128, 0));
  T(cudaOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, add, 128, 0));
  T(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, bounded, 1, 64));
  V(dynamic);
  int least = 0, size_of_block = 0;
  T(cudaOccupancyMaxPotentialBlockSize(&least, &size_of_block, Add));
  V(least);
  V(size_of_block);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(16);
  config.blockDim = dim3(64);
  int clusters = -1;
  T(cudaOccupancyMaxPotentialClusterSize(&clusters, add, &config));
  T(cudaOccupancyMaxPotentialClusterSize(&clusters, add, nullptr));
  T(cudaOccupancyMaxActiveClusters(&clusters, add, nullptr));
}
