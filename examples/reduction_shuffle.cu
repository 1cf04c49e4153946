// SPDX-License-Identifier: Apache-2.0
// Sums and finds the largest of a million integers: warp shuffles, shared memory, atomics.
//
//   nvcc reduction_shuffle.cu -o reduction_shuffle && ./reduction_shuffle
//
// Expect one PASS line. Integers, so sum and maximum must equal the host's exactly.

#include <algorithm>
#include <climits>
#include <vector>

#include "check.cuh"

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct Totals {
  long long sum;
  int maximum;
};

// Lane 0 ends with the sum and the maximum of its warp.
__device__ void ReduceWarp(long long& sum, int& maximum) {
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(kAllLanes, sum, offset);
    maximum = max(maximum, __shfl_down_sync(kAllLanes, maximum, offset));
  }
}

__global__ void Reduce(const int* values, int count, Totals* totals) {
  __shared__ long long warp_sum[kWarps];
  __shared__ int warp_maximum[kWarps];
  long long sum = 0;
  int maximum = INT_MIN;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < count; i += gridDim.x * kThreads) {
    sum += values[i];
    maximum = max(maximum, values[i]);
  }
  ReduceWarp(sum, maximum);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) {
    warp_sum[warp] = sum;
    warp_maximum[warp] = maximum;
  }
  __syncthreads();
  if (warp != 0) return;
  sum = lane < kWarps ? warp_sum[lane] : 0;
  maximum = lane < kWarps ? warp_maximum[lane] : INT_MIN;
  ReduceWarp(sum, maximum);
  if (lane == 0) {
    // Two's complement: unsigned addition of the same bits is the signed sum.
    atomicAdd(reinterpret_cast<unsigned long long*>(&totals->sum),
              static_cast<unsigned long long>(sum));
    atomicMax(&totals->maximum, maximum);
  }
}

int main() {
  example::name = "reduction_shuffle";
  const int count = 1 << 20;
  std::vector<int> values(count);
  example::Random random(3);
  for (int& value : values) value = static_cast<int>(random.Next() * 127u) - (1 << 29);
  Totals expected = {0, INT_MIN};
  for (int value : values) {
    expected.sum += value;
    expected.maximum = std::max(expected.maximum, value);
  }

  int* device_values = nullptr;
  Totals *device_totals = nullptr, totals = {0, INT_MIN};
  CUDA_CHECK(cudaMalloc(&device_values, count * sizeof(int)));
  CUDA_CHECK(cudaMalloc(&device_totals, sizeof(Totals)));
  CUDA_CHECK(cudaMemcpy(device_values, values.data(), count * sizeof(int), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_totals, &totals, sizeof(Totals), cudaMemcpyHostToDevice));
  Reduce<<<64, kThreads>>>(device_values, count, device_totals);
  LAUNCH_CHECK();
  CUDA_CHECK(cudaMemcpy(&totals, device_totals, sizeof(Totals), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device_values));
  CUDA_CHECK(cudaFree(device_totals));

  if (totals.sum != expected.sum || totals.maximum != expected.maximum) {
    example::Fail("sum %lld, maximum %d; the host has %lld and %d", totals.sum, totals.maximum,
                  expected.sum, expected.maximum);
  }
  return example::Pass("%d integers, sum %lld and maximum %d equal to the host's", count,
                       totals.sum, totals.maximum);
}
