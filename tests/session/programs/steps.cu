// SPDX-License-Identifier: Apache-2.0
// Runs N dependent steps, printing each; used while links, workers and servers are taken away under
// it.
//   steps N PAUSE_MS [MEBIBYTES]: after step i every element is i; each step also copies up and
//   down and compares.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define CHECK(call)                                                                     \
  do {                                                                                  \
    cudaError_t status = (call);                                                        \
    if (status != cudaSuccess) {                                                        \
      std::printf("error %d %s at %s\n", (int)status, cudaGetErrorName(status), #call); \
      std::fflush(stdout);                                                              \
      return 3;                                                                         \
    }                                                                                   \
  } while (0)

__global__ void AddOne(int* data, size_t count) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1;
}

int main(int argc, char** argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  int pause_ms = argc > 2 ? std::atoi(argv[2]) : 0;
  size_t count = (argc > 3 ? std::atoi(argv[3]) : 1) * (size_t)(1 << 20) / sizeof(int);
  int* data = nullptr;
  int* scratch = nullptr;
  std::vector<int> host(count), back(count);
  CHECK(cudaMalloc(&data, count * sizeof(int)));
  CHECK(cudaMalloc(&scratch, count * sizeof(int)));
  CHECK(cudaMemset(data, 0, count * sizeof(int)));
  for (int step = 1; step <= steps; ++step) {
    for (size_t i = 0; i < count; ++i) host[i] = step * 7 + (int)i;
    CHECK(cudaMemcpy(scratch, host.data(), count * sizeof(int), cudaMemcpyHostToDevice));
    AddOne<<<(count + 255) / 256, 256>>>(data, count);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(back.data(), scratch, count * sizeof(int), cudaMemcpyDeviceToHost));
    if (back != host) {
      std::printf("wrong: step %d: the copy that came back differs\n", step);
      return 2;
    }
    std::printf("step %d\n", step);
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  }
  CHECK(cudaMemcpy(back.data(), data, count * sizeof(int), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < count; ++i) {
    if (back[i] != steps) {
      std::printf("wrong: element %zu is %d after %d steps\n", i, back[i], steps);
      return 2;
    }
  }
  CHECK(cudaFree(data));
  CHECK(cudaFree(scratch));
  std::printf("right\n");
  return 0;
}
