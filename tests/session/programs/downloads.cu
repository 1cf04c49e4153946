// SPDX-License-Identifier: Apache-2.0
// downloads: more of them than the server has room for, on a stream that stands still until another
// stream's work and downloads are done. Ends with `ok`.
#include <atomic>
#include <thread>
#include <vector>

#include "check.h"

constexpr int kCount = 1 << 18, kDownloads = 64;
constexpr size_t kBytes = kCount * sizeof(int);

__global__ void Fill(int* data, int value) {
  data[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

std::atomic<bool> g_open = false;

void Gate(void*) {
  while (!g_open) std::this_thread::yield();
}

int main() {
  cudaStream_t still, other;
  int *data = nullptr, *counter = nullptr, *pinned = nullptr, *second = nullptr;
  CHECK(cudaStreamCreateWithFlags(&still, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMalloc(&counter, kBytes));
  CHECK(cudaMallocHost(&pinned, kDownloads * kBytes));
  CHECK(cudaMallocHost(&second, kBytes));
  CHECK(cudaLaunchHostFunc(still, Gate, nullptr));
  for (int i = 0; i < kDownloads; ++i) {
    Fill<<<kCount / 256, 256, 0, still>>>(data, i);
    CHECK(cudaMemcpyAsync(pinned + i * kCount, data, kBytes, cudaMemcpyDeviceToHost, still));
  }
  Fill<<<kCount / 256, 256, 0, other>>>(counter, 7);
  CHECK(cudaMemcpyAsync(second, counter, kBytes, cudaMemcpyDeviceToHost, other));
  CHECK(cudaStreamSynchronize(other));
  if (second[0] != 7 || second[kCount - 1] != 7) return std::printf("other: %d\n", second[0]), 1;
  g_open = true;
  CHECK(cudaStreamSynchronize(still));
  for (int i = 0; i < kDownloads * kCount; ++i)
    if (pinned[i] != i / kCount) return std::printf("[%d] is %d\n", i, pinned[i]), 1;
  std::printf("ok\n");
}
