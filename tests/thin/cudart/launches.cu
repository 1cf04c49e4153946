// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

namespace {

__global__ void Scale(float* values, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] *= by;
}
__global__ void Empty() {}
__global__ void Shared(int* out) {
  extern __shared__ int all[];
  all[threadIdx.x] = threadIdx.x * 2;
  __syncthreads();
  out[threadIdx.x] = all[threadIdx.x];
}
void NotAKernel() {}

}  // namespace

void TraceLaunches() {
  float* device = nullptr;
  float host[128];
  for (int i = 0; i < 128; ++i) host[i] = i;
  T(cudaMalloc(&device, sizeof(host)));
  T(cudaMemcpy(device, host, sizeof(host), cudaMemcpyHostToDevice));
  Scale<<<2, 64>>>(device, 2.0f, 128);
  T(cudaPeekAtLastError());
  T(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost));
  V(host[127]);
  float by = 3;
  int n = 100;
  void* args[] = {&device, &by, &n};
  auto scale = reinterpret_cast<const void*>(Scale);
  auto wrong = reinterpret_cast<const void*>(NotAKernel);
  T(cudaLaunchKernel(scale, dim3(2), dim3(64), args, 0, 0));
  T(cudaMemcpy(host, device, sizeof(host), cudaMemcpyDeviceToHost));
  V(host[99]);
  V(host[100]);
  T(cudaLaunchKernel(wrong, dim3(2), dim3(64), args, 0, 0));
  T(cudaLaunchKernel(static_cast<const void*>(nullptr), dim3(2), dim3(64), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(0), dim3(64), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(0), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(2048), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(1, 1, 100), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(64, 64), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(1, 70000, 1), dim3(64), args, 0, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(64), args, 1 << 20, 0));
  T(cudaLaunchKernel(scale, dim3(2), dim3(64), args, size_t{1} << 40, 0));
  Empty<<<0, 1>>>();
  T(cudaPeekAtLastError());
  T(cudaGetLastError());
  Empty<<<1, 4000>>>();
  T(cudaGetLastError());
  Empty<<<1, 1, 1 << 20>>>();
  T(cudaGetLastError());
  Empty<<<1, 1>>>();
  T(cudaGetLastError());
  Shared<<<1, 32, 128>>>(reinterpret_cast<int*>(device));
  int numbers[32] = {};  // the copy may be refused
  T(cudaMemcpy(numbers, device, sizeof(numbers), cudaMemcpyDeviceToHost));
  V(numbers[31]);
  T(cudaLaunchCooperativeKernel(scale, dim3(2), dim3(64), args, 0, 0));
  T(cudaLaunchCooperativeKernel(scale, dim3(2), dim3(0), args, 0, 0));
  T(cudaLaunchCooperativeKernel(wrong, dim3(2), dim3(64), args, 0, 0));
  T(cudaLaunchCooperativeKernel(scale, dim3(2), dim3(3000), args, 0, 0));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(2);
  config.blockDim = dim3(64);
  T(cudaLaunchKernelExC(&config, scale, args));
  T(cudaLaunchKernelExC(nullptr, scale, args));
  T(cudaLaunchKernelExC(&config, wrong, args));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  T(cudaLaunchKernelExC(&config, scale, args));
  config.blockDim = dim3(0);
  T(cudaLaunchKernelExC(&config, scale, args));
  config.blockDim = dim3(5000);
  T(cudaLaunchKernelExC(&config, scale, args));
  cudaKernel_t kernel = nullptr;
  T(cudaGetKernel(&kernel, scale));
  T(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(2), dim3(64), args, 0, 0));
  T(cudaDeviceSynchronize());
  // An error stays until it is read, and calls that succeed leave it.
  cudaMalloc(nullptr, 1);
  cudaDeviceSynchronize();
  cudaFree(nullptr);
  T(cudaPeekAtLastError());
  cudaMalloc(nullptr, 1);
  cudaSetDevice(77);
  T(cudaGetLastError());
  T(cudaFree(device));
}
