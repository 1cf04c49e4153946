// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels read and write: page-locked, registered, managed. Cases by name.
#include <cuda_profiler_api.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"
#include "driver.h"

namespace {

__global__ void Square(const uint32_t* in, uint32_t* out, size_t count) {
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) out[i] = in[i] * in[i] + 1;
}

__global__ void Increment(uint32_t* value, int rounds) {
  uint32_t x = *value;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u;
  *value = *value + 1 + (x == 0 && rounds < 0);
}

struct Node {
  Node* next;
  uint32_t value;
};
__global__ void Sum(const Node* node, uint32_t* total) {
  uint32_t sum = 0;
  for (; node != nullptr; node = node->next) sum += node->value;
  *total = sum;
}

void Run(const uint32_t* in, uint32_t* out, size_t count, cudaStream_t stream = nullptr) {
  Square<<<(count + 127) / 128, 128, 0, stream>>>(in, out, count);
  CHECK(cudaGetLastError());
}

void ExpectSquares(const uint32_t* in, const uint32_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) EXPECT(out[i] == in[i] * in[i] + 1);
}

// The ways to wait, one after the other.
void Wait(int way, cudaStream_t stream) {
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  CHECK(cudaEventRecord(event, stream));
  if (way == 0) CHECK(cudaStreamSynchronize(stream));
  if (way == 1) CHECK(cudaEventSynchronize(event));
  if (way == 2) CHECK(cudaDeviceSynchronize());
  if (way == 3) {
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
  }
  if (way == 4) {
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    }
  }
  CHECK(cudaEventDestroy(event));
}

void Mapped() {
  constexpr size_t kCount = 5000;
  uint32_t *in = nullptr, *out = nullptr, *there = nullptr;
  CHECK(cudaHostAlloc(&in, kCount * 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&out, kCount * 4, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&there, out, 0));
  EXPECT(there == out);
  CHECK(cudaHostGetDevicePointer(&there, out + 7, 0));
  EXPECT(there == out + 7);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < kCount; ++i) in[i] = uint32_t(i * 3 + round);
    Run(in, out, kCount, stream);
    Wait(round % 5, stream);
    ExpectSquares(in, out, kCount);
  }
  // Interior pointers, and a copy as the wait.
  Run(in + 100, out + 50, 100, stream);
  CHECK(cudaStreamSynchronize(stream));
  ExpectSquares(in + 100, out + 50, 100);
  uint32_t* device = nullptr;
  CHECK(cudaMalloc(&device, kCount * 4));
  std::vector<uint32_t> host(kCount);
  in[0] = 77;
  Run(in, out, kCount);
  CHECK(cudaMemcpy(host.data(), device, 4, cudaMemcpyDeviceToHost));
  EXPECT(out[0] == 77 * 77 + 1);
  // What a kernel wrote goes on in stream order, without the host between.
  in[1] = 1234;
  Run(in, out, kCount, stream);
  CHECK(cudaMemcpyAsync(device, out, kCount * 4, cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(host.data(), device, kCount * 4, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  ExpectSquares(in, host.data(), kCount);
  CHECK(cudaMemcpyAsync(out, in, kCount * 4, cudaMemcpyDefault, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(std::memcmp(out, in, kCount * 4) == 0);
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
  EXPECT(cudaFreeHost(out) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaFree(device));
}

// Any page-locked pointer may be handed to a kernel.
void Direct() {
  uint32_t *in = nullptr, *out = nullptr;
  constexpr size_t kCount = 3 << 20;  // 12 MiB: by the lanes
  CHECK(cudaMallocHost(&in, kCount * 4));
  CHECK(cudaMallocHost(&out, kCount * 4));
  for (size_t i = 0; i < kCount; ++i) in[i] = uint32_t(i);
  Run(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  ExpectSquares(in, out, kCount);
  in[kCount / 2] = 5;
  Run(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  ExpectSquares(in, out, kCount);
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
}

void Registered() {
  constexpr size_t kCount = 10000;
  std::vector<uint32_t> memory(2 * kCount + 1);
  uint32_t* base = memory.data() + 1;
  CHECK(cudaHostRegister(base, 2 * kCount * 4, cudaHostRegisterMapped));
  uint32_t* there = nullptr;
  CHECK(cudaHostGetDevicePointer(&there, base, 0));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kCount; ++i) base[i] = uint32_t(i + round);
    Run(there, there + kCount, kCount);
    CHECK(cudaDeviceSynchronize());
    ExpectSquares(base, base + kCount, kCount);
  }
  // As the source of a copy behind the kernel that wrote it.
  base[0] = 9;
  Run(there, there + kCount, kCount);
  uint32_t *device = nullptr, first = 0;
  CHECK(cudaMalloc(&device, 4));
  CHECK(cudaMemcpyAsync(device, base + kCount, 4, cudaMemcpyHostToDevice, nullptr));
  CHECK(cudaMemcpy(&first, device, 4, cudaMemcpyDeviceToHost));
  EXPECT(first == 82);
  CHECK(cudaHostUnregister(base));
  EXPECT(cudaHostGetDevicePointer(&there, base, 0) != cudaSuccess);
  cudaGetLastError();
}

// Host and device write side by side; each sees the other's.
void SideBySide() {
  struct Pair {
    uint32_t host, device;
  };
  Pair* pair = nullptr;
  CHECK(cudaHostAlloc(&pair, sizeof(Pair), cudaHostAllocMapped));
  pair->host = pair->device = 0;
  for (uint32_t round = 1; round < 20; ++round) {
    Increment<<<1, 1>>>(&pair->device, 100000);
    pair->host = round * 1000;
    CHECK(cudaDeviceSynchronize());
    EXPECT(pair->device == round && pair->host == round * 1000);
  }
  CHECK(cudaFreeHost(pair));
}

void Managed() {
  constexpr size_t kCount = 100000;
  size_t free_before = 0, free_now = 0, total = 0;
  CHECK(cudaFree(nullptr));
  CHECK(cudaMemGetInfo(&free_before, &total));
  uint32_t *in = nullptr, *out = nullptr;
  CHECK(cudaMallocManaged(&in, kCount * 4));
  CHECK(cudaMallocManaged(&out, kCount * 4));
  CHECK(cudaMemGetInfo(&free_now, &total));
  EXPECT(free_before - free_now >= 2 * kCount * 4);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, in + 5));
  EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == in + 5 &&
         attributes.devicePointer == in + 5);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kCount; ++i) in[i] = uint32_t(i * 7 + round);
    Run(in, out, kCount);
    Run(out, in, kCount);  // no wait between: the device's own
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < kCount; ++i) {
      uint32_t first = uint32_t(i * 7 + round);
      EXPECT(out[i] == first * first + 1 && in[i] == out[i] * out[i] + 1);
    }
  }
  CHECK(cudaMemset(in, 0, kCount * 4));
  CHECK(cudaDeviceSynchronize());
  for (size_t i = 0; i < kCount; ++i) EXPECT(in[i] == 0);
  std::vector<uint32_t> host(kCount, 3);
  CHECK(cudaMemcpy(in, host.data(), kCount * 4, cudaMemcpyDefault));
  CHECK(cudaDeviceSynchronize());
  EXPECT(in[kCount - 1] == 3);
  in[4] = 4;
  CHECK(cudaMemcpy(host.data(), in, kCount * 4, cudaMemcpyDefault));
  EXPECT(host[4] == 4 && host[5] == 3);
  // A list, whose nodes no parameter names.
  Node* nodes = nullptr;
  CHECK(cudaMallocManaged(&nodes, 100 * sizeof(Node)));
  for (int i = 0; i < 100; ++i) nodes[i] = {i == 99 ? nullptr : nodes + (i + 1), uint32_t(i)};
  Sum<<<1, 1>>>(nodes, out);
  CHECK(cudaDeviceSynchronize());
  EXPECT(out[0] == 4950);
  CHECK(cudaFree(nodes));
  CHECK(cudaFree(in));
  EXPECT(cudaFree(in) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaFree(out));
  CHECK(cudaMemGetInfo(&free_now, &total));
  EXPECT(free_before == free_now);
}

void Advice() {
  constexpr size_t kBytes = 1 << 20;
  CHECK(cudaFree(nullptr));
  CUdeviceptr at = 0;
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAllocManaged)(&at, kBytes, 0));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAllocManaged)(&at, 0, CU_MEM_ATTACH_GLOBAL));
  CU_CHECK(CU(cuMemAllocManaged)(&at, kBytes, CU_MEM_ATTACH_GLOBAL));
  auto get = [&](CUmem_range_attribute attribute, CUdeviceptr from, size_t bytes) {
    int value = 77;
    CU_CHECK(CU(cuMemRangeGetAttribute)(&value, sizeof(value), attribute, from, bytes));
    return value;
  };
  CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0}, none{CU_MEM_LOCATION_TYPE_DEVICE, 77};
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, kBytes) == 0);
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, kBytes) == CU_DEVICE_INVALID);
  CU_CHECK(CU(cuMemAdvise_v2)(at, kBytes / 2, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, kBytes / 2) == 1);
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, at, kBytes) == 0);
  CU_CHECK(CU(cuMemPrefetchAsync_v2)(at + kBytes / 2, kBytes / 2, device, 0, nullptr));
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at + kBytes / 2, 4096) == 0);
  EXPECT(get(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at, 4096) == CU_DEVICE_INVALID);
  CU_CHECK(CU(cuMemAdvise_v2)(at, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  int by[2] = {77, 77};
  CU_CHECK(
      CU(cuMemRangeGetAttribute)(by, sizeof(by), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, kBytes));
  EXPECT(by[0] == 0 && by[1] == CU_DEVICE_INVALID);
  CU_FAILS(CUDA_ERROR_INVALID_DEVICE,
           CU(cuMemAdvise_v2)(at, kBytes, CU_MEM_ADVISE_SET_ACCESSED_BY, none));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuMemAdvise_v2)(at, 2 * kBytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemAdvise_v2)(at, kBytes, CUmem_advise(99), device));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemPrefetchAsync_v2)(0x1000, 16, device, 0, nullptr));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE,
           CU(cuStreamAttachMemAsync)(nullptr, at, kBytes, CU_MEM_ATTACH_SINGLE));
  CU_CHECK(CU(cuStreamAttachMemAsync)(nullptr, at, 0, CU_MEM_ATTACH_HOST));
  CU_CHECK(CU(cuMemFree)(at));
  CU_FAILS(CUDA_ERROR_INVALID_VALUE, CU(cuMemPrefetchAsync_v2)(at, kBytes, device, 0, nullptr));
}

// A graph that was captured sees what the host wrote since.
void Replayed() {
  constexpr size_t kCount = 1000;
  uint32_t *in = nullptr, *out = nullptr;
  CHECK(cudaMallocManaged(&in, kCount * 4));
  CHECK(cudaMallocHost(&out, kCount * 4));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  Run(in, out, kCount, stream);
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kCount; ++i) in[i] = uint32_t(i + 10 * round);
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    ExpectSquares(in, out, kCount);
  }
}

// Nothing that is only copied is mirrored.
void Untouched() {
  uint32_t *host = nullptr, *device = nullptr;
  CHECK(cudaMallocHost(&host, 1 << 20));
  CHECK(cudaMalloc(&device, 1 << 20));
  for (int i = 0; i < 10; ++i) {
    CHECK(cudaMemcpyAsync(device, host, 1 << 20, cudaMemcpyHostToDevice, nullptr));
    Run(device, device, 1000);
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeHost(host));
}

// A step: a kernel writes mapped memory, the program waits and reads it.
void Steps(cudaStream_t stream, uint32_t* in, uint32_t* out, size_t count, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < count; i += 97) in[i] = uint32_t(i + round);
    Run(in, out, count, stream);
    CHECK(cudaStreamSynchronize(stream));
    ExpectSquares(in, out, count);
  }
}

void CountedSteps(size_t count, int rounds) {
  uint32_t *in = nullptr, *out = nullptr;
  CHECK(cudaHostAlloc(&in, count * 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&out, count * 4, cudaHostAllocMapped));
  for (size_t i = 0; i < count; ++i) in[i] = uint32_t(i);
  Steps(nullptr, in, out, count, 1);
  CHECK(cudaProfilerStart());
  Steps(nullptr, in, out, count, rounds);
  CHECK(cudaProfilerStop());
}

void Small() {
  CountedSteps(1000, 20);
}
void Large() {
  CountedSteps(6u << 20, 2);
}  // 24 MiB written, and as much looked through

// An event that completed says that what the kernel before it wrote is there: without a wait.
void Polled() {
  constexpr size_t kCount = 3000;
  uint32_t *in = nullptr, *out = nullptr;
  CHECK(cudaHostAlloc(&in, kCount * 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&out, kCount * 4, cudaHostAllocMapped));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < kCount; ++i) in[i] = uint32_t(i + round);
    Run(in, out, kCount);
    CHECK(cudaEventRecord(event));
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady) state = cudaEventQuery(event);
    CHECK(state);
    ExpectSquares(in, out, kCount);
  }
}

// Every other byte is the host's, the rest the device's; neither waits for the other, and words of
// one cross those of the other on their way.
__global__ void OddBytes(uint8_t* bytes, int count, uint8_t value) {
  for (int i = threadIdx.x; 2 * i + 1 < count; i += blockDim.x) bytes[2 * i + 1] = value;
}
__global__ void CountEven(const uint8_t* bytes, int count, uint8_t value, uint32_t* wrong) {
  for (int i = 0; 2 * i < count; ++i) *wrong += bytes[2 * i] != value;
}

void Beside() {
  constexpr int kBytes = 20000;
  uint8_t* bytes = nullptr;
  uint32_t* wrong = nullptr;
  CHECK(cudaHostAlloc(&bytes, kBytes, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&wrong, 4, cudaHostAllocMapped));
  *wrong = 0;
  cudaStream_t writes, reads;
  CHECK(cudaStreamCreateWithFlags(&writes, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&reads, cudaStreamNonBlocking));
  cudaEvent_t event;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int round = 1; round < 200; ++round) {
    auto value = static_cast<uint8_t>(round);
    OddBytes<<<1, 32, 0, writes>>>(bytes, kBytes, value);
    CHECK(cudaEventRecord(event, writes));  // its word brings the odd bytes, at any time
    for (int i = 0; i < kBytes; i += 2) bytes[i] = value;
    CountEven<<<1, 1, 0, reads>>>(bytes, kBytes, value, wrong);
    if (round % 8 == 0) CHECK(cudaStreamSynchronize(reads));
    CHECK(cudaEventSynchronize(event));
    for (int i = 0; i < kBytes; ++i) EXPECT(bytes[i] == value);
    // The next round's bytes may not change under the kernel that reads them.
    CHECK(cudaStreamSynchronize(reads));
    EXPECT(*wrong == 0);
  }
}

// A host function finds what the kernel before it wrote; the kernel behind it, what it wrote.
struct Between {
  uint32_t *in, *out;
  size_t count;
  bool right = false;
};

void InCallbacks() {
  Between at{nullptr, nullptr, 2000};
  uint32_t* last = nullptr;
  CHECK(cudaHostAlloc(&at.in, at.count * 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&at.out, at.count * 4, cudaHostAllocMapped));
  CHECK(cudaHostAlloc(&last, at.count * 4, cudaHostAllocMapped));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < 10; ++round) {
    at.right = false;
    for (size_t i = 0; i < at.count; ++i) at.in[i] = uint32_t(i + round);
    Run(at.in, at.out, at.count, stream);
    auto look = [](void* raw) {
      auto* at = static_cast<Between*>(raw);
      at->right = true;
      for (size_t i = 0; i < at->count; ++i) {
        at->right = at->right && at->out[i] == at->in[i] * at->in[i] + 1;
        at->in[i] = uint32_t(3 * i);
      }
    };
    CHECK(cudaLaunchHostFunc(stream, look, &at));
    Run(at.in, last, at.count, stream);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(at.right);
    ExpectSquares(at.in, last, at.count);
  }
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"mapped", Mapped},         {"direct", Direct},
                           {"registered", Registered}, {"side-by-side", SideBySide},
                           {"managed", Managed},       {"advice", Advice},
                           {"replayed", Replayed},     {"untouched", Untouched},
                           {"small", Small},           {"large", Large},
                           {"polled", Polled},         {"beside", Beside},
                           {"callbacks", InCallbacks}};

}  // namespace

int main(int argc, char** argv) {
  EXPECT(argc > 1);
  for (const Case& one : kCases) {
    if (std::strcmp(argv[1], one.name) != 0) continue;
    one.run();
    std::printf("done\n");
    return 0;
  }
  return 1;
}
