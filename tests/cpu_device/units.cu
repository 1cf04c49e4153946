// SPDX-License-Identifier: Apache-2.0
// A program of two translation units (-rdc=true): the kernel calls a function of the other, which
// has a kernel and a variable of its own. Prints the first error's number, or -1 for a wrong value.
#include <cstdio>

extern __device__ int Twice(int value);
extern __device__ int base;
extern __global__ void SetBase(int value);

__global__ void Compute(int* out) {
  out[threadIdx.x] = Twice(static_cast<int>(threadIdx.x)) + base;
}

int main() {
  int* memory = nullptr;
  int values[32] = {};
  cudaMalloc(&memory, sizeof(values));
  SetBase<<<1, 1>>>(1000);
  Compute<<<1, 32>>>(memory);
  cudaError_t error = cudaGetLastError();
  const cudaError_t copied = cudaMemcpy(values, memory, sizeof(values), cudaMemcpyDeviceToHost);
  if (error == cudaSuccess) error = copied;
  bool right = true;
  for (int i = 0; i < 32; ++i) right = right && values[i] == 2 * i + 1000;
  std::printf("%d", error != cudaSuccess ? static_cast<int>(error) : right ? 0 : -1);
}
