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
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  for (int round = 0; round < rounds; ++round) {
    int blocks = 0, device = -1, value = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, AddOne, 128, 0));
    EXPECT(blocks > 0);
    CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    EXPECT(stack == 2048);
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device));
    AddOne<<<1, 32, 0, stream>>>(data);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaEventQuery(event));  // after the wait: complete, whatever has been heard of it
    CHECK(cudaEventSynchronize(event));
  }
  // A change is seen.
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
  EXPECT(stack == 4096);
  CHECK(cudaEventRecord(event, stream));
  while (cudaEventQuery(event) == cudaErrorNotReady) {
  }
  std::printf("ok\n");
  return 0;
}
