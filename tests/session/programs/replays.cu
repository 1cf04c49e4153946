// SPDX-License-Identifier: Apache-2.0
// replays NODES TIMES [COPIES]: a graph of so many kernel nodes in a row, launched so often; with
// COPIES it also reads host memory and writes it back.
#include <vector>

#include "check.h"

__global__ void Add(int* data, int value) {
  *data += value;
}

int main(int argc, char** argv) {
  int nodes = argc > 1 ? std::atoi(argv[1]) : 10;
  int times = argc > 2 ? std::atoi(argv[2]) : 10;
  bool copies = argc > 3 && std::atoi(argv[3]) != 0;
  int *data = nullptr, start = 1000, end = 0;
  CHECK(cudaMalloc(&data, sizeof(int)));
  CHECK(cudaMemset(data, 0, sizeof(int)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t last = nullptr;
  if (copies) {
    CHECK(cudaGraphAddMemcpyNode1D(&last, graph, nullptr, 0, data, &start, sizeof(int),
                                   cudaMemcpyHostToDevice));
  }
  int value = 1;
  void* arguments[] = {&data, &value};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(Add);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = arguments;
  for (int i = 0; i < nodes; ++i) {
    cudaGraphNode_t node;
    CHECK(cudaGraphAddKernelNode(&node, graph, &last, last != nullptr, &params));
    last = node;
  }
  if (copies) {
    CHECK(cudaGraphAddMemcpyNode1D(&last, graph, &last, 1, &end, data, sizeof(int),
                                   cudaMemcpyDeviceToHost));
  }
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < times; ++i) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  if (copies) {
    EXPECT(end == start + nodes);
  } else {
    int got = 0;
    CHECK(cudaMemcpy(&got, data, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(got == nodes * times);
  }
  return 0;
}
