// SPDX-License-Identifier: Apache-2.0
// What cpu-device measures; native.cc holds the same loops. Driven by main.cc through the driver
// API.

constexpr int kTile = 32;
constexpr int kBins = 256;
constexpr unsigned kItems = 128, kCounted = 256;  // of a thread

extern "C" __global__ void Empty() {}

extern "C" __global__ void Elementwise(const float* a, const float* b, float* c, float factor,
                                       unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] * factor + b[i];
}

extern "C" __global__ void Matmul(const float* a, const float* b, float* c, unsigned n) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const unsigned row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (unsigned tile = 0; tile < n; tile += kTile) {
    left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

// Each block adds kItems items of each thread of its part to sums[blockIdx.x].
extern "C" __global__ void Reduce(const float* a, float* sums, unsigned n) {
  __shared__ float parts[32];
  float sum = 0;
  const unsigned first = blockIdx.x * blockDim.x * kItems + threadIdx.x;
  for (unsigned i = first; i < min(n, first + blockDim.x * kItems); i += blockDim.x) sum += a[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  }
}

extern "C" __global__ void Histogram(const unsigned char* values, unsigned* bins, unsigned n) {
  __shared__ unsigned counts[kBins];
  for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const unsigned first = blockIdx.x * blockDim.x * kCounted + threadIdx.x;
  for (unsigned i = first; i < min(n, first + blockDim.x * kCounted); i += blockDim.x)
    atomicAdd(&counts[values[i]], 1u);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) atomicAdd(&bins[i], counts[i]);
}

extern "C" __global__ void Barriers(unsigned* out, unsigned count) {
  for (unsigned i = 0; i < count; ++i) __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = count;
}

extern "C" __global__ void Shuffles(unsigned* out, unsigned count) {
  unsigned value = threadIdx.x;
  for (unsigned i = 0; i < count; ++i) value = __shfl_xor_sync(0xffffffffu, value, 1) + 1;
  if (threadIdx.x == 0) out[blockIdx.x] = value;
}
