// SPDX-License-Identifier: Apache-2.0
// Counts byte values: atomics in shared memory per block, then atomics in global memory.
//
//   nvcc histogram_atomics.cu -o histogram_atomics && ./histogram_atomics
//
// Expect one PASS line. Counts are integers and must equal the host's exactly, for even data and
// for data where nearly all threads hit the same bin.

#include <array>
#include <vector>

#include "check.cuh"

constexpr int kBins = 256;
using Histogram = std::array<unsigned, kBins>;

__global__ void Count(const unsigned char* bytes, int count, unsigned* bins) {
  __shared__ unsigned block_bins[kBins];
  block_bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    atomicAdd(&block_bins[bytes[i]], 1u);
  __syncthreads();
  if (block_bins[threadIdx.x] != 0) atomicAdd(&bins[threadIdx.x], block_bins[threadIdx.x]);
}

Histogram CountOnDevice(const std::vector<unsigned char>& bytes) {
  unsigned char* device_bytes = nullptr;
  unsigned* device_bins = nullptr;
  Histogram bins;
  CUDA_CHECK(cudaMalloc(&device_bytes, bytes.size()));
  CUDA_CHECK(cudaMalloc(&device_bins, sizeof(bins)));
  CUDA_CHECK(cudaMemcpy(device_bytes, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemset(device_bins, 0, sizeof(bins)));
  Count<<<48, kBins>>>(device_bytes, static_cast<int>(bytes.size()), device_bins);
  LAUNCH_CHECK();
  CUDA_CHECK(cudaMemcpy(bins.data(), device_bins, sizeof(bins), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device_bytes));
  CUDA_CHECK(cudaFree(device_bins));
  return bins;
}

void CheckHistogram(const char* what, const std::vector<unsigned char>& bytes) {
  Histogram expected = {};
  for (unsigned char byte : bytes) ++expected[byte];
  const Histogram bins = CountOnDevice(bytes);
  for (int bin = 0; bin < kBins; ++bin) {
    if (bins[bin] != expected[bin]) {
      example::Fail("%s data: bin %d holds %u, the host counted %u", what, bin, bins[bin],
                    expected[bin]);
    }
  }
}

int main() {
  example::name = "histogram_atomics";
  const int count = 1 << 20;
  std::vector<unsigned char> even(count), crowded(count);
  example::Random random(4);
  for (auto& byte : even) byte = static_cast<unsigned char>(random.Next());
  for (auto& byte : crowded)
    byte = random.Next() % 100 ? 42 : static_cast<unsigned char>(random.Next());
  CheckHistogram("even", even);
  CheckHistogram("crowded", crowded);
  return example::Pass("2 x %d bytes, all %d bins equal to the host's", count, kBins);
}
