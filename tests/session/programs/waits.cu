// SPDX-License-Identifier: Apache-2.0
// What a program may rely on behind a wait, and what a wait costs. Cases by name.
#include <cuda_profiler_api.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "driver.h"

namespace {

__global__ void Add(uint32_t* to, const uint32_t* from, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] += from[i];
}

CUfunction TheKernel() {
  cudaFunction_t function = nullptr;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(Add)));
  return reinterpret_cast<CUfunction>(function);
}

// A launch that the device refuses, which the client cannot know: of an instruction that the CPU
// device does not execute.
constexpr char kVain[] = R"(
.version 8.1
.target sm_90
.address_size 64
.visible .entry vain(.param .u64 to, .param .u64 from, .param .u32 count) {
  .reg .b64 %d<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %d1, [from];
  multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%d1];
  ret;
}
)";

CUfunction TheVainKernel() {
  static CUfunction function = [] {
    CUmodule module = nullptr;
    CUfunction found = nullptr;
    CU_CHECK(CU(cuModuleLoadData)(&module, kVain));
    CU_CHECK(CU(cuModuleGetFunction)(&found, module, "vain"));
    return found;
  }();
  return function;
}

CUresult LaunchInVain(CUdeviceptr to, CUdeviceptr from, int count) {
  void* parameters[] = {&to, &from, &count};
  return CU(cuLaunchKernel)(TheVainKernel(), 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr);
}

constexpr int kCount = 256;
struct Buffers {
  CUdeviceptr to = 0, from = 0;
  Buffers() {
    CHECK(cudaFree(nullptr));
    CU_CHECK(CU(cuMemAlloc)(&to, kCount * 4));
    CU_CHECK(CU(cuMemAlloc)(&from, kCount * 4));
    CU_CHECK(CU(cuCtxSynchronize)());
    TheKernel();
    TheVainKernel();
  }
};

// Something happened before without an end that the program looked at, such as a free.
void Settle() {
  usleep(200000);
}

bool MayFail(CUresult result) {
  return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED;
}

void LostCopy() {
  Buffers at;
  uint32_t host[kCount];
  EXPECT(MayFail(LaunchInVain(at.to, at.from, kCount)));
  Settle();
  CU(cuMemFree)(at.from);  // tells of it, and nobody listens
  CU_FAILS(CUDA_ERROR_NOT_SUPPORTED, CU(cuMemcpyDtoH)(host, at.to, sizeof(host)));
  CU_CHECK(CU(cuMemcpyDtoH)(host, at.to, sizeof(host)));
  CU_CHECK(CU(cuCtxSynchronize)());
}

void LostEvent() {
  Buffers at;
  CUevent event;
  CU_CHECK(CU(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT(MayFail(LaunchInVain(at.to, at.from, kCount)));
  Settle();
  CU(cuMemFree)(at.from);
  EXPECT(MayFail(CU(cuEventRecord)(event, nullptr)));
  CUresult result = CUDA_ERROR_NOT_READY;
  while (result == CUDA_ERROR_NOT_READY) result = CU(cuEventQuery)(event);
  EXPECT(result == CUDA_ERROR_NOT_SUPPORTED);
  // The failure may have been told before the event completed.
  do {
    result = CU(cuEventQuery)(event);
  } while (result == CUDA_ERROR_NOT_READY);
  CU_CHECK(result);
  CU_CHECK(CU(cuStreamSynchronize)(nullptr));
}

std::atomic<int> g_told{-1}, g_ran{0};

void LostCallback() {
  Buffers at;
  EXPECT(MayFail(LaunchInVain(at.to, at.from, kCount)));
  CUhostFn count = [](void*) { ++g_ran; };
  CUstreamCallback tell = [](CUstream, CUresult status, void*) { g_told = status; };
  EXPECT(MayFail(CU(cuLaunchHostFunc)(nullptr, count, nullptr)));
  EXPECT(MayFail(CU(cuStreamAddCallback)(nullptr, tell, nullptr, 0)));
  while (g_told < 0) usleep(1000);
  EXPECT(g_told == CUDA_ERROR_NOT_SUPPORTED && g_ran == 0);
  CU_FAILS(CUDA_ERROR_NOT_SUPPORTED, CU(cuStreamSynchronize)(nullptr));
  // The program knows now.
  CU_CHECK(CU(cuLaunchHostFunc)(nullptr, count, nullptr));
  g_told = -1;
  CU_CHECK(CU(cuStreamAddCallback)(nullptr, tell, nullptr, 0));
  CU_CHECK(CU(cuStreamSynchronize)(nullptr));
  EXPECT(g_told == CUDA_SUCCESS && g_ran == 1);
}

// As model.to(device) does it: an upload from ordinary memory and a wait, for each parameter.
void Uploads(int count) {
  CHECK(cudaFree(nullptr));
  std::vector<uint32_t*> device(count);
  std::vector<uint32_t> host(50000);  // more than a record takes
  CHECK(cudaProfilerStart());
  CHECK(cudaStreamSynchronize(nullptr));  // asks: what came before is not known
  for (int i = 0; i < count; ++i) {
    size_t elements = i % 2 == 0 ? 100 : host.size();
    CHECK(cudaMalloc(&device[i], elements * 4));
    for (size_t k = 0; k < elements; ++k) host[k] = uint32_t(i + k);
    CHECK(cudaMemcpyAsync(device[i], host.data(), elements * 4, cudaMemcpyHostToDevice, nullptr));
    CHECK(cudaStreamSynchronize(nullptr));
  }
  CHECK(cudaProfilerStop());
  // A stream that is ordered with no other finds them there.
  cudaStream_t other;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  std::vector<uint32_t> back(host.size());
  for (int i = 0; i < count; ++i) {
    size_t elements = i % 2 == 0 ? 100 : host.size();
    CHECK(cudaMemcpyAsync(back.data(), device[i], elements * 4, cudaMemcpyDeviceToHost, other));
    CHECK(cudaStreamSynchronize(other));
    for (size_t k = 0; k < elements; ++k) EXPECT(back[k] == uint32_t(i + k));
  }
}

// Each of these has something to tell: the wait asks.
void Asked() {
  uint32_t *device = nullptr, *pinned = nullptr, word = 1;
  CHECK(cudaMalloc(&device, 1 << 20));
  CHECK(cudaMallocHost(&pinned, 1 << 20));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  auto upload = [&] {
    CHECK(cudaMemcpyAsync(device, &word, 4, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
  };
  CHECK(cudaProfilerStart());
  CHECK(cudaStreamSynchronize(stream));  // 1
  upload();                              // no wait
  Add<<<1, 32, 0, stream>>>(device, device, 8);
  upload();  // 2
  CHECK(cudaMemcpyAsync(device, pinned, 1 << 20, cudaMemcpyHostToDevice, stream));
  upload();  // 3
  CHECK(cudaMemsetAsync(device, 0, 16, nullptr));
  upload();                              // 4
  CHECK(cudaStreamSynchronize(stream));  // 5: nothing has come since, the program wants to know
  upload();                              // no wait
  CHECK(cudaProfilerStop());
}

// A copy to the host that was waited for has told all: the wait behind it needs no answer, a second
// one asks whether the device still answers.
void Copied() {
  uint32_t *device = nullptr, word = 1;
  CHECK(cudaMalloc(&device, 1 << 20));
  cudaStream_t stream, other;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpy(&word, device, 4, cudaMemcpyDeviceToHost));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 10; ++i) {
    Add<<<1, 32, 0, stream>>>(device, device, 8);
    CHECK(cudaMemcpyAsync(&word, device, 4, cudaMemcpyDeviceToHost, stream));  // waited for
    CHECK(cudaStreamSynchronize(stream));                                      // no wait
  }
  CHECK(cudaStreamSynchronize(stream));  // 1
  CHECK(cudaMemcpyAsync(&word, device, 4, cudaMemcpyDeviceToHost, stream));
  Add<<<1, 32, 0, stream>>>(device, device, 8);
  CHECK(cudaStreamSynchronize(stream));  // 2: a kernel has come
  CHECK(cudaMemcpy(&word, device, 4, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());  // no wait
  CHECK(cudaDeviceSynchronize());  // asks
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  Add<<<1, 32, 0, other>>>(device, device, 8);
  CHECK(cudaMemcpy(&word, device, 4, cudaMemcpyDeviceToHost));
  CHECK(cudaDeviceSynchronize());  // asks: the copy did not wait for the other stream
  CHECK(cudaProfilerStop());
}

// Synchronous uploads, each used by a stream that is ordered with no other: a barrier each. With a
// second thread that has work of its own, each waits.
void Settles(int count, bool has_second) {
  uint32_t *slots = nullptr, *sum = nullptr, host[kCount];
  CHECK(cudaMalloc(&slots, size_t(count) * sizeof(host)));
  CHECK(cudaMalloc(&sum, sizeof(host)));
  CHECK(cudaMemset(sum, 0, sizeof(host)));
  cudaStream_t other;
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  TheKernel();
  CHECK(cudaDeviceSynchronize());
  std::atomic<bool> begun{false}, over{false};
  std::thread second;
  if (has_second) {
    second = std::thread([&] {
      CHECK(cudaSetDevice(0));
      begun = true;
      while (!over) usleep(1000);
    });
    while (!begun) usleep(1000);
  }
  CHECK(cudaProfilerStart());
  for (int i = 0; i < count; ++i) {
    uint32_t* slot = slots + size_t(i) * kCount;
    for (uint32_t& word : host) word = uint32_t(i + 1);
    CHECK(cudaMemcpy(slot, host, sizeof(host), cudaMemcpyHostToDevice));
    Add<<<1, 32, 0, other>>>(sum, slot, kCount);
  }
  CHECK(cudaProfilerStop());
  over = true;
  if (has_second) second.join();
  CHECK(cudaStreamSynchronize(other));
  CHECK(cudaMemcpy(host, sum, sizeof(host), cudaMemcpyDeviceToHost));
  for (uint32_t word : host) EXPECT(word == uint32_t(count * (count + 1) / 2));
}

// Two recordings, a wait, and the time between: the wait alone asks.
void Pairs(int count) {
  uint32_t* device = nullptr;
  CHECK(cudaMalloc(&device, 1 << 20));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaEvent_t marks[3];
  for (cudaEvent_t& mark : marks) CHECK(cudaEventCreate(&mark));
  TheKernel();
  CHECK(cudaDeviceSynchronize());
  float ms = -1, first = -1, second = -1;
  CHECK(cudaProfilerStart());
  for (int i = 0; i < count; ++i) {
    CHECK(cudaEventRecord(marks[0], stream));
    Add<<<1, 32, 0, stream>>>(device, device, kCount);
    CHECK(cudaEventRecord(marks[1], stream));
    CHECK(cudaStreamSynchronize(stream));
    ms = -1;
    CHECK(cudaEventElapsedTime(&ms, marks[0], marks[1]));
    EXPECT(ms >= 0 && ms < 60000);
  }
  CHECK(cudaProfilerStop());
  // What was told is what the server would say, and of the newest recordings only.
  for (cudaEvent_t mark : marks) {
    CHECK(cudaEventRecord(mark, stream));
    Add<<<1, 32, 0, stream>>>(device, device, kCount);
  }
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventElapsedTime(&first, marks[0], marks[1]));
  CHECK(cudaEventElapsedTime(&second, marks[1], marks[2]));
  CHECK(cudaEventElapsedTime(&ms, marks[0], marks[2]));
  EXPECT(std::abs(first + second - ms) < 0.01f);
  CHECK(cudaEventRecord(marks[0], stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventElapsedTime(&ms, marks[0], marks[1]));
  EXPECT(ms < 0);
}

// The least that a program does with a device.
void First() {
  uint32_t* device = nullptr;
  CHECK(cudaMalloc(&device, 1 << 20));
  Add<<<1, 32>>>(device, device, kCount);
  CHECK(cudaDeviceSynchronize());
}

void Grows(int count) {
  CHECK(cudaFree(nullptr));
  std::vector<void*> blocks(count);
  CHECK(cudaProfilerStart());
  for (void*& block : blocks) CHECK(cudaMalloc(&block, 20 << 20));
  CHECK(cudaProfilerStop());
  for (void* block : blocks) CHECK(cudaFree(block));
}

// How much the device says is free, before and while this process holds memory; then until stdin
// ends.
void Free(size_t mebibytes) {
  CHECK(cudaFree(nullptr));
  size_t free = 0, total = 0;
  void* block = nullptr;
  if (mebibytes != 0) CHECK(cudaMalloc(&block, mebibytes << 20));
  CHECK(cudaMemGetInfo(&free, &total));
  std::printf("free %zu of %zu\n", free, total);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  int number = argc > 2 ? std::atoi(argv[2]) : 0;
  std::string what = argv[1];
  if (what == "lost-copy")
    LostCopy();
  else if (what == "lost-event")
    LostEvent();
  else if (what == "lost-callback")
    LostCallback();
  else if (what == "uploads")
    Uploads(number);
  else if (what == "asked")
    Asked();
  else if (what == "copied")
    Copied();
  else if (what == "settles")
    Settles(number, argc > 3);
  else if (what == "pairs")
    Pairs(number);
  else if (what == "first")
    First();
  else if (what == "grows")
    Grows(number);
  else if (what == "free")
    Free(static_cast<size_t>(number));
  else
    return 1;
  std::printf("done\n");
  return 0;
}
