// SPDX-License-Identifier: Apache-2.0
// Adds two vectors: the smallest whole CUDA program.
//
//   nvcc vector_add.cu -o vector_add && ./vector_add
//
// Expect one line that begins with PASS. One IEEE addition is correctly rounded on the device and
// on the host, so the results must be equal to the bit.

#include <vector>

#include "check.cuh"

__global__ void Add(const float* a, const float* b, float* sum, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] = a[i] + b[i];
}

int main() {
  example::name = "vector_add";
  const int count = 1000003;  // prime: the last block is only partly full
  const size_t bytes = count * sizeof(float);
  std::vector<float> a(count), b(count), sum(count);
  example::Random random(1);
  for (int i = 0; i < count; ++i) {
    a[i] = random.Uniform(-100, 100);
    b[i] = random.Uniform(-1, 1);
  }

  float *device_a = nullptr, *device_b = nullptr, *device_sum = nullptr;
  CUDA_CHECK(cudaMalloc(&device_a, bytes));
  CUDA_CHECK(cudaMalloc(&device_b, bytes));
  CUDA_CHECK(cudaMalloc(&device_sum, bytes));
  CUDA_CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));

  const int threads = 256;
  Add<<<example::DivideUp(count, threads), threads>>>(device_a, device_b, device_sum, count);
  LAUNCH_CHECK();
  CUDA_CHECK(cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device_a));
  CUDA_CHECK(cudaFree(device_b));
  CUDA_CHECK(cudaFree(device_sum));

  for (int i = 0; i < count; ++i) {
    const float expected = a[i] + b[i];
    if (sum[i] != expected) {
      example::Fail("element %d: %.9g + %.9g gave %.9g, the host has %.9g", i, a[i], b[i], sum[i],
                    expected);
    }
  }
  return example::Pass("%d sums equal to the host's, bit for bit", count);
}
