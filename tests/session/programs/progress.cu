// SPDX-License-Identifier: Apache-2.0
// Works for ever, launches queued ahead, small and large kernels mixed; prints how much is done.
#include <cstdio>
#include <vector>

#include "check.h"

namespace {

constexpr int kBlocks = 8, kThreads = 64;
constexpr int kLaunches = 8;  // a unit of work
constexpr int kAhead = 4;     // units queued

__global__ void Churn(float* out, int steps) {
  float x = threadIdx.x * 0.001f + blockIdx.x;
  for (int i = 0; i < steps; ++i) {
    x = x * 0.999f + 0.5f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

}  // namespace

int main() {
  float* out = nullptr;
  CHECK(cudaMalloc(&out, kBlocks * kThreads * sizeof(float)));
  std::vector<cudaEvent_t> done(kAhead);
  for (cudaEvent_t& event : done) {
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  for (long unit = 0;; ++unit) {
    cudaEvent_t event = done[unit % kAhead];
    if (unit >= kAhead) {
      CHECK(cudaEventSynchronize(event));
      std::printf("%ld\n", unit - kAhead + 1);
      std::fflush(stdout);
    }
    for (int i = 0; i < kLaunches; ++i) {
      Churn<<<kBlocks, kThreads>>>(out, i == 0 ? 8000 : 1000);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event));
  }
}
