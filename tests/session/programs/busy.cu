// SPDX-License-Identifier: Apache-2.0
// busy BLOCKS STREAMS LAUNCHES STEPS [COMPANIONS]: kernels of so many blocks, on so many streams in
// turn, all queued before it waits for the last. Beside each kernel, so many memsets on a stream of
// their own. Prints, in nanoseconds:
//   the time in which any of the kernels ran, by the device's clock; the longest kernel; the time
//   from the first launch until all were done, by the host's
// Then it waits for the end of its input.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

namespace {

using Span = ulonglong2;  // begin, end
constexpr int kThreads = 64;
constexpr size_t kBytes = 4 << 20;

__device__ unsigned long long Now() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void Churn(Span* span, float* out, int steps) {
  if (threadIdx.x == 0) atomicMin(&span->x, Now());
  float x = threadIdx.x * 0.001f + blockIdx.x;
  for (int i = 0; i < steps; ++i) x = x * 0.999f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(&span->y, Now());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "busy BLOCKS STREAMS LAUNCHES STEPS [COMPANIONS]\n");
    return 2;
  }
  const int blocks = std::atoi(argv[1]), launches = std::atoi(argv[3]), steps = std::atoi(argv[4]);
  const int companions = argc > 5 ? std::atoi(argv[5]) : 0;
  std::vector<cudaStream_t> streams(static_cast<size_t>(std::max(std::atoi(argv[2]), 1)));
  for (cudaStream_t& stream : streams)
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaStream_t beside = nullptr;
  CHECK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  std::vector<Span> spans(static_cast<size_t>(launches), Span{~0ull, 0});
  Span* on_device = nullptr;
  float* out = nullptr;
  void* filled = nullptr;
  CHECK(cudaMalloc(&on_device, spans.size() * sizeof(Span)));
  CHECK(cudaMalloc(&out, static_cast<size_t>(blocks) * kThreads * sizeof(float)));
  CHECK(cudaMalloc(&filled, kBytes));
  CHECK(cudaMemcpy(on_device, spans.data(), spans.size() * sizeof(Span), cudaMemcpyHostToDevice));
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) {
    cudaStream_t stream = streams[static_cast<size_t>(i) % streams.size()];
    Churn<<<blocks, kThreads, 0, stream>>>(on_device + i, out, steps);
    CHECK(cudaGetLastError());
    for (int k = 0; k < companions; ++k) CHECK(cudaMemsetAsync(filled, i + 1, kBytes, beside));
  }
  CHECK(cudaDeviceSynchronize());
  const auto passed = std::chrono::steady_clock::now() - begun;
  CHECK(cudaMemcpy(spans.data(), on_device, spans.size() * sizeof(Span), cudaMemcpyDeviceToHost));
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.x < b.x; });
  unsigned long long any = 0, until = 0, longest = 0;
  for (const Span& span : spans) {
    if (span.y < span.x) {
      std::fprintf(stderr, "busy: a kernel did not run\n");
      return 1;
    }
    longest = std::max(longest, span.y - span.x);
    any += span.y > until ? span.y - std::max(span.x, until) : 0;
    until = std::max(until, span.y);
  }
  std::printf(
      "%llu %llu %lld\n", any, longest,
      static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
