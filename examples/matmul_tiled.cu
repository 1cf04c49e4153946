// SPDX-License-Identifier: Apache-2.0
// Multiplies two matrices through tiles in shared memory.
//
//   nvcc matmul_tiled.cu -o matmul_tiled && ./matmul_tiled
//
// Expect one PASS line with the largest error. The host adds in double. The device adds k products
// in float, so an element may be off by at most about k * 2^-24 * sum(|a| * |b|), the classic bound
// for a dot product in any order, with or without fused multiply-add.

#include <cfloat>
#include <cmath>
#include <vector>

#include "check.cuh"

constexpr int kTile = 16;

// c (m x n) = a (m x k) * b (k x n), all row-major. One block computes one tile of c.
__global__ void MatMul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < k; start += kTile) {
    const int a_column = start + threadIdx.x, b_row = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < m && a_column < k ? a[row * k + a_column] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = b_row < k && column < n ? b[b_row * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

// Compares with the host's product; returns the largest error as a fraction of its bound.
double CheckProduct(const std::vector<float>& a, const std::vector<float>& b,
                    const std::vector<float>& c, int m, int n, int k) {
  double worst = 0;
  std::vector<double> sum(n), magnitude(n);
  for (int row = 0; row < m; ++row) {
    std::fill(sum.begin(), sum.end(), 0.0);
    std::fill(magnitude.begin(), magnitude.end(), 0.0);
    for (int i = 0; i < k; ++i) {
      for (int column = 0; column < n; ++column) {
        const double product = static_cast<double>(a[row * k + i]) * b[i * n + column];
        sum[column] += product;
        magnitude[column] += std::fabs(product);
      }
    }
    for (int column = 0; column < n; ++column) {
      const double bound = k * (FLT_EPSILON / 2) * magnitude[column] + FLT_MIN;
      const double error = std::fabs(c[row * n + column] - sum[column]);
      if (!(error <= bound)) {
        example::Fail("c[%d][%d] is %.9g, the host has %.9g: off by %.3g, at most %.3g is rounding",
                      row, column, c[row * n + column], sum[column], error, bound);
      }
      worst = std::fmax(worst, error / bound);
    }
  }
  return worst;
}

int main() {
  example::name = "matmul_tiled";
  const int m = 250, n = 270, k = 230;  // no multiple of the tile: the edges are exercised
  std::vector<float> a(m * k), b(k * n), c(m * n);
  example::Random random(2);
  for (float& x : a) x = random.Uniform(-1, 1);
  for (float& x : b) x = random.Uniform(-1, 1);

  float *device_a = nullptr, *device_b = nullptr, *device_c = nullptr;
  CUDA_CHECK(cudaMalloc(&device_a, a.size() * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&device_b, b.size() * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&device_c, c.size() * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));

  const dim3 block(kTile, kTile);
  const dim3 grid(example::DivideUp(n, kTile), example::DivideUp(m, kTile));
  MatMul<<<grid, block>>>(device_a, device_b, device_c, m, n, k);
  LAUNCH_CHECK();
  CUDA_CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(device_a));
  CUDA_CHECK(cudaFree(device_b));
  CUDA_CHECK(cudaFree(device_c));

  const double worst = CheckProduct(a, b, c, m, n, k);
  return example::Pass("%d x %d times %d x %d, all %d elements within %.1f%% of the rounding bound",
                       m, k, k, n, m * n, worst * 100);
}
