// SPDX-License-Identifier: Apache-2.0
// big_copy MEBIBYTES: one copy up and one down of that size (over 4 GiB is the point), compared
// where it would wrap.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  size_t bytes = (argc > 1 ? std::atol(argv[1]) : 4100) * (size_t)(1 << 20);
  auto* host = static_cast<uint64_t*>(std::malloc(bytes));
  if (host == nullptr) return 4;
  const size_t words = bytes / 8, stride = 4096 / 8;
  for (size_t i = 0; i < words; i += stride) host[i] = i * 0x9E3779B97F4A7C15ull;
  void* device = nullptr;
  cudaError_t status = cudaMalloc(&device, bytes);
  if (status != cudaSuccess) {
    std::printf("error %d %s at cudaMalloc\n", (int)status, cudaGetErrorName(status));
    return 3;
  }
  status = cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice);
  if (status == cudaSuccess) {
    for (size_t i = 0; i < words; i += stride) host[i] = 0;
    status = cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost);
  }
  if (status != cudaSuccess) {
    std::printf("error %d %s at cudaMemcpy\n", (int)status, cudaGetErrorName(status));
    return 3;
  }
  for (size_t i = 0; i < words; i += stride) {
    if (host[i] != i * 0x9E3779B97F4A7C15ull) {
      std::printf("wrong: word %zu\n", i);
      return 2;
    }
  }
  std::printf("right\n");
  return 0;
}
