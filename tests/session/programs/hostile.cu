// SPDX-License-Identifier: Apache-2.0
// hostile SUBJECT: what a tenant may do to its neighbours.
//   flood    a million launches of a kernel that does next to nothing
//   endless  a kernel that never ends
//   churn    64 threads that allocate and free for ever
//   forks    children that take memory and die, one after the other
// Each prints "on" when it is under way; flood and forks print "done".
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

namespace {

__global__ void Touch(int* out) {
  *out = 1;
}

__global__ void Spin(volatile int* end) {
  while (*end == 0) {
  }
}

void Say(const char* what) {
  std::printf("%s\n", what);
  std::fflush(stdout);
}

int* Memory() {
  int* memory = nullptr;
  CHECK(cudaMalloc(&memory, sizeof(int)));
  CHECK(cudaMemset(memory, 0, sizeof(int)));
  return memory;
}

void Flood() {
  int* out = Memory();
  Touch<<<1, 1>>>(out);
  CHECK(cudaDeviceSynchronize());
  Say("on");
  for (int i = 0; i < 1'000'000; ++i) Touch<<<1, 1>>>(out);
  CHECK(cudaDeviceSynchronize());
  Say("done");
}

void Endless() {
  int* end = Memory();
  CHECK(cudaDeviceSynchronize());
  Spin<<<1, 1>>>(end);
  CHECK(cudaGetLastError());
  Say("on");
  CHECK(cudaDeviceSynchronize());
}

void Churn() {
  Memory();
  Say("on");
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([i] {
      for (;;) {
        void* memory = nullptr;
        // Refused is an answer: the quota is small.
        if (cudaMalloc(&memory, (i % 8 + 1) << 20) == cudaSuccess) cudaFree(memory);
      }
    });
  }
  threads[0].join();
}

void Forks() {
  Say("on");
  for (int i = 0; i < 8; ++i) {
    pid_t child = fork();
    if (child == 0) {
      void* memory = nullptr;
      CHECK(cudaMalloc(&memory, 16 << 20));
      Touch<<<1, 1>>>(static_cast<int*>(memory));
      abort();
    }
    waitpid(child, nullptr, 0);
  }
  Say("done");
}

}  // namespace

int main(int argc, char** argv) {
  const char* subject = argc > 1 ? argv[1] : "";
  if (std::strcmp(subject, "flood") == 0)
    Flood();
  else if (std::strcmp(subject, "endless") == 0)
    Endless();
  else if (std::strcmp(subject, "churn") == 0)
    Churn();
  else if (std::strcmp(subject, "forks") == 0)
    Forks();
  else
    return 2;
  return 0;
}
