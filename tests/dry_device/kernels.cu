// SPDX-License-Identifier: Apache-2.0
// Kernels and variables of every shape that the dry device has to read from machine code.
#include <cstdint>
#include <cstdio>

struct Mixed {
  char a;
  double b;
  short c;
};
struct Large {
  char bytes[5000];
};

extern "C" {
__constant__ float coefficients[7];
__constant__ int constants[3] = {1, 2, 3};
__device__ int counter = 5;
__device__ double table[1000];
__device__ double* into_table = table + 10;
__managed__ int managed = 3;

__global__ void Scale(float* data, float factor, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = data[i] * factor * coefficients[constants[0]];
}

__global__ void __launch_bounds__(128) Bounded(char a, long b, short c, Mixed m) {
  if (threadIdx.x == 0) printf("%d %ld %d %f %f\n", a, b, c, m.b, *into_table);
}

__global__ void Shared(float* data) {
  __shared__ float tile[64];
  tile[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = tile[63 - threadIdx.x] + managed;
}

__global__ void TakesMuch(const Large large, int i, char* out) {
  *out = large.bytes[i];
}

__global__ void UsesStack(int* data, int at) {
  volatile int array[100];
  for (int i = 0; i < 100; ++i) array[i] = data[i];
  data[0] = array[at % 100] + counter;
}

__global__ void Nothing() {}

#if __CUDA_ARCH__ >= 900
__global__ void __cluster_dims__(2, 1, 1) Clustered(float* data) {
  data[blockIdx.x] = 1;
}
#endif
}
