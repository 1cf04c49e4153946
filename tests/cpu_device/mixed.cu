// SPDX-License-Identifier: Apache-2.0
// Compiled twice: with PTX it is `main` and AddOne, as machine code alone (-DMACHINE_CODE) AddTen.
#include <cstdio>

#ifdef MACHINE_CODE
__global__ void AddTen(int* data) {
  *data += 10;
}
void LaunchAddTen(int* data) {
  AddTen<<<1, 1>>>(data);
}
#else
__global__ void AddOne(int* data) {
  *data += 1;
}
void LaunchAddTen(int* data);

// Prints what two AddOne and three AddTen make of 100.
int main() {
  int *data = nullptr, value = 100;
  cudaMalloc(&data, sizeof(value));
  cudaMemcpy(data, &value, sizeof(value), cudaMemcpyHostToDevice);
  for (int i = 0; i < 2; ++i) AddOne<<<1, 1>>>(data);
  for (int i = 0; i < 3; ++i) LaunchAddTen(data);
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess)
    status = cudaMemcpy(&value, data, sizeof(value), cudaMemcpyDeviceToHost);
  if (status == cudaSuccess)
    std::printf("value %d\n", value);
  else
    std::printf("error %s\n", cudaGetErrorName(status));
  return status == cudaSuccess ? 0 : 3;
}
#endif
