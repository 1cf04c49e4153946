// SPDX-License-Identifier: Apache-2.0
// What the cases of graph_checks share, and their names.
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                           \
  do {                                                                        \
    cudaError_t check = (call);                                               \
    if (check != cudaSuccess) Fail(#call, cudaGetErrorName(check), __LINE__); \
  } while (0)
#define GIVES(code, call)                                            \
  do {                                                               \
    cudaError_t got = (call);                                        \
    if (got != (code)) Fail(#call, cudaGetErrorName(got), __LINE__); \
    (void)cudaGetLastError();                                        \
  } while (0)
#define EXPECT(condition)                                  \
  do {                                                     \
    if (!(condition)) Fail(#condition, "false", __LINE__); \
  } while (0)

[[noreturn]] inline void Fail(const char* what, const char* got, int line) {
  std::printf("line %d: %s: %s\n", line, what, got);
  std::fflush(stdout);
  std::_Exit(1);
}

static __global__ void Add(int* data, int value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += value;
}
static __global__ void Twice(int* data, int value, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] = 2 * data[i] + value;
}
static __global__ void CountDown(cudaGraphConditionalHandle handle, int* left, int* done) {
  *done += 1;
  *left -= 1;
  cudaGraphSetConditional(handle, *left > 0 ? 1 : 0);
}
static __global__ void Choose(cudaGraphConditionalHandle handle, const int* from) {
  cudaGraphSetConditional(handle, *from);
}

constexpr int kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(int);

struct Run {
  cudaStream_t stream = nullptr;
  int* device = nullptr;
  Run() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, kBytes));
    CHECK(cudaMemset(device, 0, kBytes));
    CHECK(cudaDeviceSynchronize());
  }
  int Read(int index = 0) {
    int value = -1;
    CHECK(cudaMemcpyAsync(&value, device + index, sizeof(value), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return value;
  }
  void Launch(cudaGraphExec_t exec) {
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
};

struct KernelArguments {
  int* data;
  int value;
  int count = kCount;
  void* list[3] = {&data, &value, &count};
  cudaKernelNodeParams params{};
  KernelArguments(void* kernel, int* data, int value) : data(data), value(value) {
    params.func = kernel;
    params.gridDim = dim3((kCount + 127) / 128);
    params.blockDim = dim3(128);
    params.kernelParams = list;
  }
};

inline cudaGraphExec_t Frozen(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

struct HostWork {
  int* data;
  int calls = 0;
};
inline void CUDART_CB AddOne(void* pointer) {
  auto* work = static_cast<HostWork*>(pointer);
  ++work->calls;
  for (int i = 0; i < kCount; ++i) work->data[i] += 1;
}

void ExplicitNodes();
void CapturedCopies();
void HostNodes();
void CapturedNodes();
void ClonesAndChildren();
void Updates();
void MemoryNodes();
void Conditionals();
void UserObjects();
void Events();
void Errors();
void Boxes();
void Dot();
void MemoryOperations();
void LaunchedInCapture();
