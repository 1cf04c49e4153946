// SPDX-License-Identifier: Apache-2.0
// hold MEBIBYTES: allocates that much, prints `held` or the error, then waits for its standard
// input to end.
//   hold MEBIBYTES try: tries once a 10 ms until it fits, prints how long that took.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

int main(int argc, char** argv) {
  size_t bytes = (argc > 1 ? std::atol(argv[1]) : 1) * (size_t)(1 << 20);
  void* data = nullptr;
  auto start = std::chrono::steady_clock::now();
  cudaError_t status = cudaMalloc(&data, bytes);
  while (argc > 2 && status == cudaErrorMemoryAllocation &&
         std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    status = cudaMalloc(&data, bytes);
  }
  if (status != cudaSuccess) {
    std::printf("error %d %s\n", (int)status, cudaGetErrorName(status));
    return 3;
  }
  if (argc > 2) {
    auto waited = std::chrono::steady_clock::now() - start;
    std::printf("fits after %ld ms\n",
                (long)std::chrono::duration_cast<std::chrono::milliseconds>(waited).count());
    return 0;
  }
  std::printf("held\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
