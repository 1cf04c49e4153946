// SPDX-License-Identifier: Apache-2.0
// Page-locked and managed memory over shm://: copies of it, kernels that look at it while the
// program writes, children. Cases by name; each says whether the memory is the server's, too.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

__global__ void Add(uint32_t* data, uint32_t value, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] += value;
}

void AddTo(uint32_t* data, uint32_t value, size_t count, cudaStream_t stream = nullptr) {
  Add<<<(count + 255) / 256, 256, 0, stream>>>(data, value, count);
}

// words[0] is the program's, words[1] ours, in turns.
__global__ void Answer(volatile uint32_t* words, uint32_t rounds) {
  for (uint32_t round = 1; round <= rounds; ++round) {
    while (words[0] != round) {
    }
    words[1] = round;
    __threadfence_system();
  }
}

void SayWhose(const void* memory) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  const char* whose = "nobody's";
  while (fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long from = 0, to = 0;
    sscanf(line, "%lx-%lx", &from, &to);
    auto at = reinterpret_cast<unsigned long>(memory);
    if (from <= at && at < to)
      whose = strstr(line, "memfd:farcall-host") != nullptr ? "shared" : "private";
  }
  fclose(maps);
  printf("%s\n", whose);
}

uint32_t* PageLocked(size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return static_cast<uint32_t*>(memory);
}

void Copies(size_t bytes) {
  const size_t count = bytes / 4;
  uint32_t *from = PageLocked(bytes), *to = PageLocked(bytes), *device = nullptr;
  SayWhose(to);
  cudaStream_t stream;
  CHECK(cudaMalloc(&device, bytes));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (size_t i = 0; i < count; ++i) from[i] = uint32_t(i * 7);
  CHECK(cudaMemcpyAsync(device, from, bytes, cudaMemcpyHostToDevice, stream));
  AddTo(device, 1, count, stream);
  CHECK(cudaMemcpyAsync(to, device, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < count; ++i) EXPECT(to[i] == uint32_t(i * 7) + 1);
  // The memory is the program's again when a synchronous copy returns.
  for (uint32_t round = 0; round < 8; ++round) {
    memset(from, int(round), bytes);
    CHECK(cudaMemcpy(device, from, bytes, cudaMemcpyHostToDevice));
    memset(from, 0xEE, bytes);
    CHECK(cudaMemcpy(to, device, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i += 97) EXPECT(to[i] == round * 0x01010101u);
  }
  // Rows, and memory that the program has registered itself.
  CHECK(cudaMemcpy2D(device, 256, from, 512, 128, bytes / 512, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(to, device, 128, cudaMemcpyDeviceToHost));
  EXPECT(to[0] == 0xEEEEEEEE && to[31] == 0xEEEEEEEE);
  std::vector<uint32_t> own(1024, 5);
  CHECK(cudaHostRegister(own.data(), 4096, cudaHostRegisterDefault));
  SayWhose(own.data());
  CHECK(cudaMemcpy(device, own.data(), 4096, cudaMemcpyHostToDevice));
  AddTo(device, 2, 1024);
  CHECK(cudaMemcpy(own.data(), device, 4096, cudaMemcpyDeviceToHost));
  EXPECT(own[0] == 7 && own[1023] == 7);
  CHECK(cudaHostUnregister(own.data()));
  CHECK(cudaFreeHost(from));
  CHECK(cudaFreeHost(to));
}

void Polls(uint32_t rounds) {
  uint32_t* memory = PageLocked(4096);
  SayWhose(memory);
  volatile uint32_t* words = memory;
  Answer<<<1, 1>>>(memory, rounds);
  CHECK(cudaGetLastError());
  EXPECT(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  for (uint32_t round = 1; round <= rounds; ++round) {
    words[0] = round;
    while (words[1] != round) {
    }
  }
  CHECK(cudaDeviceSynchronize());
}

void Frees(size_t bytes, int times) {
  for (int i = 0; i < times; ++i) {
    uint32_t* memory = PageLocked(bytes);
    if (i == 0 || i + 1 == times) SayWhose(memory);
    EXPECT(memory[0] == 0 && memory[bytes / 4 - 1] == 0);
    AddTo(memory, 3, bytes / 4);
    CHECK(cudaDeviceSynchronize());
    EXPECT(memory[0] == 3 && memory[bytes / 4 - 1] == 3);
    CHECK(cudaFreeHost(memory));
  }
}

void Managed(size_t bytes) {
  uint32_t* memory = nullptr;
  CHECK(cudaMallocManaged(&memory, bytes));
  SayWhose(memory);
  const size_t count = bytes / 4;
  for (uint32_t round = 0; round < 4; ++round) {
    for (size_t i = 0; i < count; ++i) memory[i] += uint32_t(i);
    AddTo(memory, 1, count);
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < count; ++i) EXPECT(memory[i] == (round + 1) * uint32_t(i + 1));
  }
  CHECK(cudaFree(memory));
}

// A child has none of it, and nobody else gets the addresses there.
void Forks() {
  uint32_t* memory = PageLocked(1 << 20);
  SayWhose(memory);
  fflush(stdout);
  memory[0] = 41;
  const pid_t child = fork();
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0) _exit(1);
    if (write(ends[1], memory, 4) != -1 || errno != EFAULT) _exit(2);
    SayWhose(memory);  // the window's, which is private
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  AddTo(memory, 1, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(memory[0] == 42);
}

// Work ahead of a synchronous upload of other memory has written what the host sees by then, and
// work ahead of a copy of rows what the copy reads.
void Orders() {
  uint32_t *memory = PageLocked(4096), *device = nullptr;
  SayWhose(memory);
  CHECK(cudaMalloc(&device, 4096));
  std::vector<uint32_t> other(1024, 9);
  for (uint32_t round = 1; round <= 100; ++round) {
    AddTo(memory, 1, 1024);
    CHECK(cudaMemcpy(device, other.data(), 4096, cudaMemcpyHostToDevice));
    EXPECT(memory[0] == round && memory[1023] == round);
    AddTo(memory, 100, 1024);
    CHECK(cudaMemcpy2DAsync(device, 64, memory, 64, 64, 64, cudaMemcpyHostToDevice));
    AddTo(memory, uint32_t(-100), 1024);
    uint32_t last = 0;
    CHECK(cudaMemcpy(&last, device + 1023, 4, cudaMemcpyDeviceToHost));
    EXPECT(last == round + 100);
  }
}

void Holds(size_t bytes) {
  SayWhose(PageLocked(bytes));
  printf("held\n");
  fflush(stdout);
  pause();
}

}  // namespace

int main(int count, char** words) {
  const std::string what = words[1];
  const size_t number = count > 2 ? strtoul(words[2], nullptr, 10) : 0;
  CHECK(cudaFree(nullptr));
  if (what == "copies") Copies(number << 20);
  if (what == "polls") Polls(uint32_t(number));
  if (what == "frees") Frees(8 << 20, int(number));
  if (what == "managed") Managed(number << 20);
  if (what == "forks") Forks();
  if (what == "orders") Orders();
  if (what == "holds") Holds(number << 20);
  printf("right\n");
  return 0;
}
