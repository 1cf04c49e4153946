// SPDX-License-Identifier: Apache-2.0
// settings N: the first use of each of N kernels (16 at most), as libraries begin: more shared
// memory is allowed, a share of the cache preferred, the function asked for.
#include <cstdlib>
#include <utility>

#include "check.h"

constexpr int kKernels = 16;

template <int kBy>
__global__ void Add(int* data) {
  data[threadIdx.x] += kBy;
}

template <int... kBy>
void Fill(void (**kernels)(int*), std::integer_sequence<int, kBy...>) {
  int at = 0;
  ((kernels[at++] = Add<kBy + 1>), ...);
}

int main(int argc, char** argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 1;
  void (*kernels[kKernels])(int*);
  Fill(kernels, std::make_integer_sequence<int, kKernels>());
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 32 * sizeof(int)));
  CHECK(cudaMemset(data, 0, 32 * sizeof(int)));
  int expected = 0, most = 0;
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  for (int i = 0; i < count && i < kKernels; ++i) {
    auto* symbol = reinterpret_cast<const void*>(kernels[i]);
    cudaFunction_t function = nullptr;
    cudaFuncAttributes attributes;
    CHECK(cudaFuncSetAttribute(symbol, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
    CHECK(cudaFuncSetAttribute(symbol, cudaFuncAttributePreferredSharedMemoryCarveout, 50 + i));
    CHECK(cudaGetFuncBySymbol(&function, symbol));
    EXPECT(function != nullptr);
    CHECK(cudaFuncGetAttributes(&attributes, symbol));
    EXPECT(attributes.maxDynamicSharedSizeBytes == most);
    EXPECT(attributes.preferredShmemCarveout == 50 + i);
    // Refused at the call, as the device would.
    EXPECT(cudaFuncSetAttribute(symbol, cudaFuncAttributeMaxDynamicSharedMemorySize, most + 1) ==
           cudaErrorInvalidValue);
    EXPECT(cudaFuncSetAttribute(symbol, cudaFuncAttributePreferredSharedMemoryCarveout, 101) ==
           cudaErrorInvalidValue);
    cudaGetLastError();
    kernels[i]<<<1, 32, most>>>(data);
    CHECK(cudaGetLastError());
    expected += i + 1;
  }
  int seen[32] = {};
  CHECK(cudaMemcpy(seen, data, sizeof(seen), cudaMemcpyDeviceToHost));
  for (int value : seen) EXPECT(value == expected);
  std::printf("ok\n");
  return 0;
}
