// SPDX-License-Identifier: Apache-2.0
// Work that waits for the host, and calls that wait for such work. Cases by name.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

namespace {

__device__ uint64_t Now() {
  uint64_t ns = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

// 2: the host has set `flag`; 1: not within the limit, which only ends what has failed.
__global__ void AwaitFlag(const volatile uint32_t* flag, uint32_t* seen) {
  constexpr uint64_t kLimitNs = 20'000'000'000;
  const uint64_t begun = Now();
  while (*flag == 0 && Now() - begun < kLimitNs) __nanosleep(100000);
  *seen = *flag != 0 ? 2 : 1;
}

// A kernel that waits for the host, which says so before it waits for the kernel: by each wait.
void Released() {
  uint32_t *flag = nullptr, *seen = nullptr, last = 0;
  CHECK(cudaHostAlloc(&flag, 4, cudaHostAllocMapped));
  CHECK(cudaMalloc(&seen, 4));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int how = 0; how < 5; ++how) {
    *flag = 0;
    AwaitFlag<<<1, 1>>>(flag, seen);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event));
    *static_cast<volatile uint32_t*>(flag) = 1;
    if (how == 0) CHECK(cudaStreamSynchronize(nullptr));
    if (how == 1) CHECK(cudaDeviceSynchronize());
    if (how == 2) CHECK(cudaEventSynchronize(event));
    while (how == 3 && cudaEventQuery(event) == cudaErrorNotReady) continue;
    while (how == 4 && cudaStreamQuery(nullptr) == cudaErrorNotReady) continue;
    CHECK(cudaMemcpy(&last, seen, 4, cudaMemcpyDeviceToHost));
    EXPECT(last == 2);
  }
}

__global__ void First(uint32_t* word) {
  *word += 7;
}

// A kernel's first launch may wait for the context's work, and that for a host function.
void HeldWhileItLoads() {
  uint32_t *word = nullptr, last = 0;
  CHECK(cudaMalloc(&word, 4));
  CHECK(cudaMemset(word, 0, 4));
  cudaStream_t held;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  std::atomic<bool> open{false};
  const auto hold = [](void* data) {
    while (!static_cast<std::atomic<bool>*>(data)->load()) std::this_thread::yield();
  };
  CHECK(cudaLaunchHostFunc(held, hold, &open));
  std::thread opener([&open] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    open = true;
  });
  First<<<1, 1>>>(word);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&last, word, 4, cudaMemcpyDeviceToHost));
  EXPECT(last == 7);
  opener.join();
  // What a host function wrote is there for what follows it, however it came.
  uint32_t* mapped = nullptr;
  CHECK(cudaHostAlloc(&mapped, 1 << 20, cudaHostAllocMapped));
  memset(mapped, 0, 1 << 20);
  for (uint32_t round = 1; round <= 20; ++round) {
    CHECK(cudaLaunchHostFunc(
        held, [](void* data) { ++*static_cast<uint32_t*>(data); }, mapped));
    First<<<1, 1, 0, held>>>(mapped);
    CHECK(cudaStreamSynchronize(held));
    EXPECT(*mapped == round * 8);
  }
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  const std::string what = argv[1];
  if (what == "released") Released();
  if (what == "loading") HeldWhileItLoads();
  std::printf("done\n");
}
