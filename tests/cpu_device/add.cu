// SPDX-License-Identifier: Apache-2.0
// Prints the runtime's error number: 0 when a kernel ran and its result is right, -1 when it is
// wrong.
#include <cstdio>

__global__ void Add(const int* a, const int* b, int* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main() {
  constexpr int kCount = 1000;
  static int host[3][kCount];
  int* device[3] = {};
  for (int i = 0; i < kCount; ++i) {
    host[0][i] = i;
    host[1][i] = 3 * i + 1;
  }
  for (int i = 0; i < 3; ++i) {
    cudaMalloc(&device[i], sizeof(host[i]));
    cudaMemcpy(device[i], host[i], sizeof(host[i]), cudaMemcpyHostToDevice);
  }
  Add<<<(kCount + 127) / 128, 128>>>(device[0], device[1], device[2], kCount);
  int result = cudaGetLastError();
  if (result == 0) result = cudaMemcpy(host[2], device[2], sizeof(host[2]), cudaMemcpyDeviceToHost);
  for (int i = 0; result == 0 && i < kCount; ++i)
    if (host[2][i] != 4 * i + 1) result = -1;
  printf("%d\n", result);
  return 0;
}
