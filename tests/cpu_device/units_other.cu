// SPDX-License-Identifier: Apache-2.0
// The other unit of units.cu.
__device__ int base;

__device__ int Twice(int value) {
  return 2 * value;
}

__global__ void SetBase(int value) {
  base = value;
}
