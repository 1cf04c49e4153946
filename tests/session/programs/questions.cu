// SPDX-License-Identifier: Apache-2.0
// questions N: each round asks what a client should know by itself, and waits for one stream.
#include <cstdlib>

#include "check.h"

__global__ void AddOne(int* data) {
  data[threadIdx.x] += 1;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  int* data = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&data, 4096));
  CHECK(cudaMemset(data, 0, 4096));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  size_t stack = 0;
  cudaFunction_t first = nullptr;
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  for (int round = 0; round < rounds; ++round) {
    int blocks = 0, device = -1, value = 0;
    for (int shared : {1024, 8192}) {  // to and fro, as cuDNN does
      CHECK(cudaFuncSetAttribute(AddOne, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
      CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, AddOne, 128, shared));
      EXPECT(blocks > 0);
    }
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    EXPECT(stack == 2048);
    // Set again to what it is: nothing changes, and what was answered still holds.
    CHECK(cudaFuncSetAttribute(AddOne, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
    cudaFunction_t function = nullptr;
    CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(AddOne)));
    EXPECT(function != nullptr && (first == nullptr || function == first));
    first = function;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    AddOne<<<1, 32, 0, stream>>>(data);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventQuery(event));  // after the wait: complete, whatever has been heard of it
    CHECK(cudaEventSynchronize(event));
  }
  CHECK(cudaEventRecord(event, stream));
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  // A change is seen.
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  EXPECT(stack == 4096);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncSetAttribute(AddOne, cudaFuncAttributeMaxDynamicSharedMemorySize, 2048));
  CHECK(cudaFuncGetAttributes(&attributes, AddOne));
  EXPECT(attributes.maxDynamicSharedSizeBytes == 2048);
  CHECK(cudaFuncSetAttribute(AddOne, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096));
  CHECK(cudaFuncGetAttributes(&attributes, AddOne));
  EXPECT(attributes.maxDynamicSharedSizeBytes == 4096);
  EXPECT(cudaFuncSetAttribute(AddOne, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30) !=
         cudaSuccess);
  cudaGetLastError();
  // A context that begins again has functions of its own.
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaEventDestroy(event));
  CHECK(cudaDeviceReset());
  CHECK(cudaMalloc(&data, 4096));
  cudaFunction_t second = nullptr;
  CHECK(cudaGetFuncBySymbol(&second, reinterpret_cast<const void*>(AddOne)));
  AddOne<<<1, 32>>>(data);
  CHECK(cudaDeviceSynchronize());
  std::printf("ok\n");
  return 0;
}
