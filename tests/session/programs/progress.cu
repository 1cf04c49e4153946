// SPDX-License-Identifier: Apache-2.0
// progress [AHEAD]: works for ever, so many units queued ahead (1: it waits for each), small and
// large kernels mixed; prints how much is done.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

namespace {

constexpr int kBlocks = 8, kThreads = 64;
constexpr int kLaunches = 8;  // a unit of work

__global__ void Churn(float* out, int steps) {
  float x = threadIdx.x * 0.001f + blockIdx.x;
  for (int i = 0; i < steps; ++i) x = x * 0.999f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

}  // namespace

int main(int argc, char** argv) {
  const int ahead = argc > 1 ? std::atoi(argv[1]) : 4;
  CHECK(ahead > 0 ? cudaSuccess : cudaErrorInvalidValue);
  float* out = nullptr;
  CHECK(cudaMalloc(&out, kBlocks * kThreads * sizeof(float)));
  std::vector<cudaEvent_t> done(ahead);
  for (cudaEvent_t& event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (long unit = 0;; ++unit) {
    cudaEvent_t event = done[unit % ahead];
    if (unit >= ahead) {
      CHECK(cudaEventSynchronize(event));
      std::printf("%ld\n", unit - ahead + 1);
      std::fflush(stdout);
    }
    for (int i = 0; i < kLaunches; ++i) Churn<<<kBlocks, kThreads>>>(out, i == 0 ? 8000 : 1000);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event));
  }
}
