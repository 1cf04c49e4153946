// SPDX-License-Identifier: Apache-2.0
// Waits BEFORE times, then INSIDE times between cudaProfilerStart and Stop, then once more; three
// memsets are posted in the range.
//   ranged BEFORE INSIDE
#include <cuda_profiler_api.h>

#include <cstdlib>

#include "check.h"

int main(int argc, char** argv) {
  int before = argc > 1 ? std::atoi(argv[1]) : 1;
  int inside = argc > 2 ? std::atoi(argv[2]) : 1;
  int* data = nullptr;
  CHECK(cudaMalloc(&data, 4096));
  for (int i = 0; i < before; ++i) CHECK(cudaStreamSynchronize(0));
  CHECK(cudaProfilerStart());
  for (int i = 0; i < 3; ++i) CHECK(cudaMemsetAsync(data, i, 4096));
  for (int i = 0; i < inside; ++i) CHECK(cudaStreamSynchronize(0));
  CHECK(cudaProfilerStop());
  CHECK(cudaStreamSynchronize(0));
  CHECK(cudaFree(data));
  return 0;
}
