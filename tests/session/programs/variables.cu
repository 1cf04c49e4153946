// SPDX-License-Identifier: Apache-2.0
// __managed__ variables: what host and kernels write, each reads of the other.
#include <cstdint>

#include "check.h"

namespace {

constexpr int kCount = 3000;

__managed__ int number = 5;
__managed__ uint8_t tail[3] = {1, 2, 3};
__managed__ float table[kCount];

__global__ void Step(int* also, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) table[i] += 1;
  if (i == 0) {
    *also += by;
    tail[2] += 1;
  }
}

__global__ void Read(int* out) {
  *out = number;
}

void StepOnce(int* also, int by) {
  Step<<<(kCount + 255) / 256, 256>>>(also, by);
  CHECK(cudaGetLastError());
}

}  // namespace

int main() {
  EXPECT(number == 5 && tail[2] == 3 && table[kCount - 1] == 0);  // before any call
  number = 7;
  table[1] = 100;
  int* other = nullptr;
  CHECK(cudaMalloc(&other, sizeof(int)));
  CHECK(cudaMemset(other, 0, sizeof(int)));
  StepOnce(other, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(number == 7 && tail[2] == 4 && tail[0] == 1);
  EXPECT(table[0] == 1 && table[1] == 101 && table[kCount - 1] == 1);
  int seen = 0;
  Read<<<1, 1>>>(other);
  CHECK(cudaMemcpy(&seen, other, sizeof(seen), cudaMemcpyDeviceToHost));
  EXPECT(seen == 7);  // what the host wrote

  StepOnce(&number, 10);  // by its address
  CHECK(cudaStreamSynchronize(nullptr));
  EXPECT(number == 17);
  tail[0] = 9;
  table[2] = -1;
  StepOnce(&number, 3);
  StepOnce(other, 1);
  CHECK(cudaDeviceSynchronize());
  EXPECT(number == 20 && tail[0] == 9 && tail[2] == 7 && table[2] == 1);

  // Filled by the device, whole and in part.
  tail[1] = 50;
  CHECK(cudaMemset(&number, 0, sizeof(number)));
  CHECK(cudaMemsetAsync(tail, 0x11, 1));
  CHECK(cudaMemset(table + 1, 0, 2 * sizeof(float)));
  CHECK(cudaDeviceSynchronize());
  EXPECT(number == 0 && tail[0] == 0x11 && tail[1] == 50);
  EXPECT(table[0] == 4 && table[1] == 0 && table[2] == 0);
  number = 20;

  // The symbol, and what is known of the address.
  int copied = 0;
  CHECK(cudaMemcpyFromSymbol(&copied, number, sizeof(copied)));
  EXPECT(copied == 20);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, &number));
  EXPECT(attributes.type == cudaMemoryTypeManaged && attributes.hostPointer == &number);
  cudaMemLocation device{cudaMemLocationTypeDevice, 0};
  CHECK(cudaMemPrefetchAsync(table, sizeof(table), device, 0, nullptr));
  EXPECT(cudaFree(&number) != cudaSuccess);
  cudaGetLastError();
  CHECK(cudaFree(other));
  std::printf("done\n");
}
