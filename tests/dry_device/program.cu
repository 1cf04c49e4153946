// SPDX-License-Identifier: Apache-2.0
// A program of machine code alone, for runs on the dry device.
//   touch   copies a block up, launches on it, copies it down
//   peak    allocates 40 GiB and 1 MiB, frees them, allocates 10 GiB
//   fork    two children launch once each, one leaves by _exit, one is killed; the parent launches
//   fail    leaves with code 9
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                     \
  do {                                                                                  \
    cudaError_t status = (call);                                                        \
    if (status != cudaSuccess) {                                                        \
      std::printf("error %d %s at %s\n", (int)status, cudaGetErrorName(status), #call); \
      std::exit(3);                                                                     \
    }                                                                                   \
  } while (0)

__global__ void Overwrite(int* data, int value) {
  data[threadIdx.x] = value;
}

void Touch() {
  constexpr size_t kBytes = 1 << 20;
  cudaDeviceProp properties;
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaGetDeviceProperties(&properties, 0));
  std::printf("devices: %d\ndevice: %s\n", devices, properties.name);
  std::vector<int> host(kBytes / sizeof(int), 7);
  int *data = nullptr, *other = nullptr;
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMalloc(&other, kBytes));
  CHECK(cudaMemcpy(data, host.data(), kBytes, cudaMemcpyHostToDevice));
  for (int i = 0; i < 3; ++i) Overwrite<<<1, 32>>>(data, i);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host.data(), data, kBytes, cudaMemcpyDeviceToHost));
  std::printf("element 0 is %d\n", host[0]);
}

void Peak() {
  void *big = nullptr, *small = nullptr;
  CHECK(cudaMalloc(&big, 40ull << 30));
  CHECK(cudaMalloc(&small, 1 << 20));
  CHECK(cudaMemset(big, 0, 40ull << 30));
  CHECK(cudaFree(big));
  CHECK(cudaFree(small));
  CHECK(cudaMalloc(&big, 10ull << 30));
}

void LaunchOnce() {
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 4096));
  Overwrite<<<1, 32>>>(data, 1);
  CHECK(cudaDeviceSynchronize());
}

void Fork() {
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      LaunchOnce();
      if (child == 0) _exit(0);
      kill(getpid(), SIGKILL);
    }
    waitpid(pid, nullptr, 0);
  }
  LaunchOnce();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "touch";
  if (!std::strcmp(what, "touch")) Touch();
  if (!std::strcmp(what, "peak")) Peak();
  if (!std::strcmp(what, "fork")) Fork();
  if (!std::strcmp(what, "fail")) return 9;
  return 0;
}
