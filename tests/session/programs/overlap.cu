// SPDX-License-Identifier: Apache-2.0
// overlap: uploads on one stream while another works. Says `warm`, waits for a line, enqueues
// uploads and what depends on them, then works elsewhere and says `passed`; ends with `ok`.
#include <cstdlib>
#include <vector>

#include "check.h"

constexpr int kCount = 5 << 20;
constexpr size_t kBytes = kCount * sizeof(int);

__global__ void Add(int* data, int value, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] += value;
}

int main() {
  cudaStream_t upload, dependent, other;
  cudaEvent_t uploaded;
  int *data = nullptr, *counter = nullptr, *pinned = nullptr;
  CHECK(cudaStreamCreateWithFlags(&upload, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&dependent, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming));
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMalloc(&counter, sizeof(int)));
  CHECK(cudaMallocHost(&pinned, kBytes));
  for (int i = 0; i < kCount; ++i) pinned[i] = i;
  CHECK(cudaMemcpyAsync(data, pinned, kBytes, cudaMemcpyHostToDevice, upload));  // opens the lanes
  CHECK(cudaMemset(counter, 0, sizeof(int)));
  CHECK(cudaDeviceSynchronize());
  std::printf("warm\n");
  std::fflush(stdout);
  std::getchar();

  CHECK(cudaMemcpyAsync(data, pinned, kBytes, cudaMemcpyHostToDevice, upload));
  CHECK(cudaEventRecord(uploaded, upload));
  CHECK(cudaStreamWaitEvent(dependent, uploaded, 0));
  Add<<<64, 128, 0, dependent>>>(data, 1, kCount);
  CHECK(cudaEventRecord(uploaded, dependent));
  for (int round = 0; round < 50; ++round) {
    Add<<<1, 1, 0, other>>>(counter, 1, 1);
    CHECK(cudaStreamSynchronize(other));
  }
  bool still_away = cudaEventQuery(uploaded) == cudaErrorNotReady;
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 64 << 20));
  std::printf("passed%s\n", still_away ? " the upload" : "");
  std::fflush(stdout);

  CHECK(cudaFree(memory));  // waits its turn behind the upload
  CHECK(cudaStreamSynchronize(dependent));
  std::vector<int> got(kCount);
  int counted = 0;
  CHECK(cudaMemcpy(got.data(), data, kBytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&counted, counter, sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) {
    if (got[i] != i + 1) {
      std::printf("data[%d] is %d\n", i, got[i]);
      return 1;
    }
  }
  std::printf(counted == 50 ? "ok\n" : "counter is %d\n", counted);
  return counted == 50 ? 0 : 1;
}
