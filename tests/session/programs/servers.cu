// SPDX-License-Identifier: Apache-2.0
// servers WHAT: devices of several servers in one process. Each WHAT prints `ok` or the place of
// what was not so.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

constexpr int kCount = 3 << 20;  // 12 MiB: several pieces of a copy
constexpr size_t kBytes = kCount * sizeof(int);

__device__ int g_bias;

__global__ void Add(int* data, int value, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    data[i] += value + g_bias;
}

// Spins until the host says so, in memory of its own server.
__global__ void Hold(volatile int* go) {
  while (*go == 0) {
  }
}

struct Side {
  int device = 0;
  cudaStream_t stream = nullptr;
  int* data = nullptr;
};

Side Open(int device, int first = 0) {
  Side side;
  side.device = device;
  CHECK(cudaSetDevice(device));
  CHECK(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&side.data, kBytes));
  std::vector<int> host(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = first + i;
  CHECK(cudaMemcpy(side.data, host.data(), kBytes, cudaMemcpyHostToDevice));
  return side;
}

// data[i] == first + i on the device; asked for from whatever device is current.
void Expect(const Side& side, int first) {
  std::vector<int> host(kCount, -1);
  CHECK(cudaMemcpy(host.data(), side.data, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; i += 4097) {
    if (host[i] != first + i) {
      std::printf("device %d: [%d] is %d, not %d\n", side.device, i, host[i], first + i);
      std::exit(1);
    }
  }
  EXPECT(host[kCount - 1] == first + kCount - 1);
}

void List() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, device));
    char bus[32];
    CHECK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
    int found = -1;
    CHECK(cudaDeviceGetByPCIBusId(&found, bus));
    EXPECT(found == device);
    std::printf("%s ", bus);
    for (char byte : properties.uuid.bytes) std::printf("%02x", static_cast<unsigned char>(byte));
    std::printf("\n");
  }
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int can = -1;
      if (from != to) CHECK(cudaDeviceCanAccessPeer(&can, from, to));
      if (from != to) std::printf("peer %d %d %d\n", from, to, can);
    }
  }
}

// Each device computes with what was set on it, from one thread and from one thread each.
void Compute() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::vector<Side> sides;
  for (int device = 0; device < count; ++device) {
    sides.push_back(Open(device, 1000 * device));
    const int bias = 10 * device;
    CHECK(cudaMemcpyToSymbol(g_bias, &bias, sizeof(bias)));
  }
  for (const Side& side : sides) {
    CHECK(cudaSetDevice(side.device));
    Add<<<8, 128, 0, side.stream>>>(side.data, 7, kCount);
    CHECK(cudaGetLastError());
  }
  // A stream is waited for, and memory read, whatever device is current.
  CHECK(cudaSetDevice(0));
  for (const Side& side : sides) CHECK(cudaStreamSynchronize(side.stream));
  for (const Side& side : sides) Expect(side, 1000 * side.device + 7 + 10 * side.device);
  std::vector<std::thread> threads;
  for (const Side& side : sides) {
    threads.emplace_back([&side] {
      CHECK(cudaSetDevice(side.device));
      for (int i = 0; i < 50; ++i) Add<<<1, 32, 0, side.stream>>>(side.data, 1, kCount);
      CHECK(cudaDeviceSynchronize());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Side& side : sides) {
    Expect(side, 1000 * side.device + 57 + 510 * side.device);
    CHECK(cudaFree(side.data));  // the current device is another for all but one
    CHECK(cudaStreamDestroy(side.stream));
  }
  CHECK(cudaGetLastError());
}

// In stream order, both ways, and by each call that copies between devices.
void Copies() {
  Side one = Open(0, 5), two = Open(1, 900);
  CHECK(cudaMemcpyPeer(two.data, 1, one.data, 0, kBytes));
  Expect(two, 5);
  CHECK(cudaSetDevice(0));
  Add<<<8, 128, 0, one.stream>>>(one.data, 1, kCount);
  CHECK(cudaMemcpyPeerAsync(two.data, 1, one.data, 0, kBytes, one.stream));
  Add<<<8, 128, 0, one.stream>>>(one.data, 1, kCount);  // behind the copy, so not in it
  CHECK(cudaStreamSynchronize(one.stream));
  Expect(two, 6);
  Expect(one, 7);
  // On the receiver's stream.
  CHECK(cudaSetDevice(1));
  CHECK(cudaMemcpyAsync(two.data, one.data, kBytes, cudaMemcpyDefault, two.stream));
  Add<<<8, 128, 0, two.stream>>>(two.data, 30, kCount);
  CHECK(cudaStreamSynchronize(two.stream));
  Expect(two, 37);
  CHECK(cudaMemcpy(one.data, two.data, kBytes, cudaMemcpyDeviceToDevice));
  Expect(one, 37);
  // A part of it, of odd size and place.
  Add<<<8, 128>>>(two.data, 100, kCount);
  CHECK(cudaMemcpy(reinterpret_cast<char*>(one.data) + 3, reinterpret_cast<char*>(two.data) + 3, 9,
                   cudaMemcpyDeviceToDevice));
  int got[4] = {};
  CHECK(cudaMemcpy(got, one.data, sizeof(got), cudaMemcpyDeviceToHost));
  EXPECT(got[1] == 138 && got[2] == 139 && got[3] == 40);
  EXPECT(cudaMemcpy(one.data, two.data, kBytes + 4, cudaMemcpyDeviceToDevice) ==
         cudaErrorInvalidValue);
}

// An event of one server holds up one stream of the other's, and nothing else.
void Waits() {
  Side one = Open(0, 0), two = Open(1, 0);
  int* go = nullptr;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&go, sizeof(int)));
  CHECK(cudaMemset(go, 0, sizeof(int)));
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  cudaStream_t release;
  CHECK(cudaStreamCreateWithFlags(&release, cudaStreamNonBlocking));
  CHECK(cudaDeviceSynchronize());
  Hold<<<1, 1, 0, one.stream>>>(go);
  CHECK(cudaEventRecord(event, one.stream));
  CHECK(cudaSetDevice(1));
  cudaStream_t free_stream;
  CHECK(cudaStreamCreateWithFlags(&free_stream, cudaStreamNonBlocking));
  CHECK(cudaStreamWaitEvent(two.stream, event, 0));
  Add<<<8, 128, 0, two.stream>>>(two.data, 1, kCount);
  cudaEvent_t passed;
  CHECK(cudaEventCreate(&passed));
  CHECK(cudaEventRecord(passed, two.stream));
  // Another stream of that device goes on, and this thread does.
  int* other = nullptr;
  CHECK(cudaMalloc(&other, kBytes));
  CHECK(cudaMemsetAsync(other, 0, kBytes, free_stream));
  Add<<<8, 128, 0, free_stream>>>(other, 4, kCount);
  CHECK(cudaStreamSynchronize(free_stream));
  EXPECT(cudaEventQuery(passed) == cudaErrorNotReady);
  // What the event records later is not waited for.
  CHECK(cudaSetDevice(0));
  const int one_word = 1;
  CHECK(cudaMemcpyAsync(go, &one_word, sizeof(int), cudaMemcpyHostToDevice, release));
  CHECK(cudaStreamSynchronize(two.stream));
  Expect(two, 1);
  float ms = 0;
  EXPECT(cudaEventElapsedTime(&ms, event, passed) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  // An event that was never recorded holds up nothing.
  cudaEvent_t never;
  CHECK(cudaEventCreate(&never));
  CHECK(cudaStreamWaitEvent(two.stream, never, 0));
  CHECK(cudaStreamSynchronize(two.stream));
}

// One page-locked buffer serves both, in both directions.
void Pinned() {
  Side one = Open(0, 0), two = Open(1, 0);
  int* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, kBytes));
  for (int round = 0; round < 4; ++round) {
    for (const Side& side : {one, two}) {
      CHECK(cudaSetDevice(side.device));
      CHECK(cudaMemcpyAsync(pinned, side.data, kBytes, cudaMemcpyDeviceToHost, side.stream));
      CHECK(cudaStreamSynchronize(side.stream));
      for (int i = 0; i < kCount; ++i) pinned[i] += 1;
      CHECK(cudaMemcpyAsync(side.data, pinned, kBytes, cudaMemcpyHostToDevice, side.stream));
      CHECK(cudaStreamSynchronize(side.stream));
    }
  }
  Expect(one, 4);
  Expect(two, 4);
  // Mapped, devices of both use it in turn, and each sees what the other wrote.
  CHECK(cudaSetDevice(0));
  std::memset(pinned, 0, kBytes);
  Add<<<8, 128>>>(pinned, 5, kCount);
  CHECK(cudaDeviceSynchronize());
  EXPECT(pinned[0] == 5 && pinned[kCount - 1] == 5);
  CHECK(cudaSetDevice(1));
  Add<<<8, 128>>>(pinned, 6, kCount);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  EXPECT(pinned[0] == 11 && pinned[kCount - 1] == 11);
  CHECK(cudaSetDevice(0));
  pinned[1] = 20;
  Add<<<8, 128>>>(pinned, 1, kCount);
  CHECK(cudaMemcpy(one.data, pinned, kBytes, cudaMemcpyHostToDevice));
  int back[2] = {};
  CHECK(cudaMemcpy(back, one.data, sizeof(back), cudaMemcpyDeviceToHost));
  EXPECT(back[0] == 12 && back[1] == 21);
  // While one may be writing it, the other's may not use it: it could see an old copy.
  volatile int* go = nullptr;
  CHECK(cudaMallocHost(const_cast<int**>(&go), sizeof(int)));
  *go = 0;
  Hold<<<1, 1, 0, one.stream>>>(go);
  CHECK(cudaGetLastError());
  CHECK(cudaSetDevice(1));
  Add<<<8, 128>>>(pinned, 1, kCount);
  EXPECT(cudaGetLastError() == cudaErrorNotSupported);
  EXPECT(cudaMemcpy(two.data, pinned, kBytes, cudaMemcpyHostToDevice) == cudaErrorNotSupported);
  cudaGetLastError();
  *go = 1;
  CHECK(cudaStreamSynchronize(one.stream));
  Add<<<8, 128>>>(pinned, 1, kCount);
  CHECK(cudaDeviceSynchronize());
  EXPECT(pinned[0] == 13);
  CHECK(cudaFreeHost(const_cast<int*>(go)));
  CHECK(cudaFreeHost(pinned));
}

// What cannot be across servers says so by CUDA's own codes.
void Refused() {
  Side one = Open(0, 0), two = Open(1, 0);
  int can = -1;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 0);
  CHECK(cudaSetDevice(0));
  EXPECT(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessUnsupported);
  cudaGetLastError();
  EXPECT(cudaMemcpy2D(one.data, 64, two.data, 64, 64, 4, cudaMemcpyDeviceToDevice) != cudaSuccess);
  cudaGetLastError();
  // A kernel on a stream of another server's device.
  Add<<<1, 1, 0, two.stream>>>(one.data, 1, 1);
  EXPECT(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  // An event records its own device's streams.
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  EXPECT(cudaEventRecord(event, two.stream) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  // A capture waits for none of another server's events.
  CHECK(cudaEventRecord(event, one.stream));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamBeginCapture(two.stream, cudaStreamCaptureModeRelaxed));
  EXPECT(cudaStreamWaitEvent(two.stream, event, 0) == cudaErrorNotSupported);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(two.stream, &graph);
  cudaGetLastError();
  Expect(one, 0);
  Expect(two, 0);
}

// The first server goes while the program runs: its contexts are lost, the other's are not.
void Lost() {
  Side one = Open(0, 0), two = Open(1, 0);
  std::printf("ready\n");
  std::fflush(stdout);
  std::getchar();
  CHECK(cudaSetDevice(0));
  cudaError_t status = cudaSuccess;
  for (int i = 0; i < 600 && status == cudaSuccess; ++i) {
    status = cudaMemcpy(one.data, one.data + 16, 16, cudaMemcpyDeviceToDevice);
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT(status != cudaSuccess);
  std::printf("lost\n");
  CHECK(cudaSetDevice(1));
  Add<<<8, 128, 0, two.stream>>>(two.data, 3, kCount);
  CHECK(cudaStreamSynchronize(two.stream));
  Expect(two, 3);
  EXPECT(cudaMemcpyPeer(two.data, 1, one.data, 0, kBytes) != cudaSuccess);
  Expect(two, 3);
}

void Memory() {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device) {
    CHECK(cudaSetDevice(device));
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    int* all = nullptr;
    EXPECT(cudaMalloc(&all, total + (2u << 20)) == cudaErrorMemoryAllocation);
    cudaGetLastError();
    CHECK(cudaMalloc(&all, total / 2));
    std::printf("memory %d %zu\n", device, total);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::map<std::string, std::function<void()>> all = {
      {"list", List},     {"compute", Compute}, {"copies", Copies}, {"waits", Waits},
      {"pinned", Pinned}, {"refused", Refused}, {"lost", Lost},     {"memory", Memory}};
  const auto found = all.find(count > 1 ? arguments[1] : "");
  if (found == all.end()) return 2;
  found->second();
  std::printf("ok\n");
  return 0;
}
