// SPDX-License-Identifier: Apache-2.0
// load STEPS[,STEPS...] PIECES AHEAD PAUSE_US [ITERATIONS]: a CUDA program like any other.
//   STEPS       lengths of its kernels, each launch one of them, by chance
//   PIECES      launches of an iteration, which it then waits for
//   AHEAD       iterations queued before it waits for the first of them; 1: it waits for each
//   PAUSE_US    after each iteration; what it spends on its host
//   ITERATIONS  0, or none: for ever
// Prints a line for each that is done: its number, microseconds since the first began, what it took
// without its pause.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#define CHECK(call)                                                               \
  do {                                                                            \
    cudaError_t status_ = (call);                                                 \
    if (status_ != cudaSuccess) {                                                 \
      std::fprintf(stderr, "load: %s: %s\n", #call, cudaGetErrorString(status_)); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlocks = 8, kThreads = 64;

__global__ void Churn(float* out, int steps) {
  float x = threadIdx.x * 0.001f + blockIdx.x;
  for (int i = 0; i < steps; ++i) x = x * 0.999f + 0.5f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

long Microseconds(Clock::duration time) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

std::vector<int> Numbers(const char* text) {
  std::vector<int> numbers;
  for (char* end = nullptr; *text != 0; text = *end == ',' ? end + 1 : end) {
    numbers.push_back(static_cast<int>(std::strtol(text, &end, 10)));
    if (end == text || numbers.back() <= 0) return {};
  }
  return numbers;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int> steps = argc > 4 ? Numbers(argv[1]) : std::vector<int>();
  const long pieces = argc > 4 ? std::atol(argv[2]) : 0, ahead = argc > 4 ? std::atol(argv[3]) : 0;
  if (steps.empty() || pieces <= 0 || ahead <= 0) {
    std::fprintf(stderr, "load STEPS[,STEPS...] PIECES AHEAD PAUSE_US [ITERATIONS]\n");
    return 2;
  }
  const std::chrono::microseconds pause(std::atol(argv[4]));
  const long iterations = argc > 5 ? std::atol(argv[5]) : 0;
  float* out = nullptr;
  CHECK(cudaMalloc(&out, kBlocks * kThreads * sizeof(float)));
  std::vector<cudaEvent_t> done(static_cast<size_t>(ahead));
  for (cudaEvent_t& event : done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  std::mt19937 random(1);
  const Clock::time_point start = Clock::now();
  std::vector<Clock::time_point> begun(done.size());
  for (long begins = 0, ends = 0; iterations == 0 || ends < iterations; ++begins) {
    if (iterations == 0 || begins < iterations) {
      const size_t slot = static_cast<size_t>(begins % ahead);
      begun[slot] = Clock::now();
      for (long i = 0; i < pieces; ++i)
        Churn<<<kBlocks, kThreads>>>(out, steps[random() % steps.size()]);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(done[slot]));
    }
    if (begins - ends + 1 < ahead) continue;
    const size_t slot = static_cast<size_t>(ends % ahead);
    CHECK(cudaEventSynchronize(done[slot]));
    const Clock::time_point now = Clock::now();
    std::printf("%ld %ld %ld\n", ++ends, Microseconds(now - start),
                Microseconds(now - begun[slot]));
    std::fflush(stdout);
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
  }
  return 0;
}
