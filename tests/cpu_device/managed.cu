// SPDX-License-Identifier: Apache-2.0
// __managed__ variables, read and written by the host and by kernels. Prints 0, or what went wrong.
#include <cstdio>

__managed__ int number = 5;
__managed__ float table[1000];

__global__ void Fill(int* also) {
  table[threadIdx.x] = threadIdx.x + number;
  if (threadIdx.x == 0) *also += 10;
}

int main() {
  if (number != 5) return printf("-1\n"), 1;  // before any call
  number = 7;
  Fill<<<1, 32>>>(&number);
  int result = cudaDeviceSynchronize();
  if (result == 0 && (number != 17 || table[0] != 7)) result = -2;
  printf("%d\n", result);
}
