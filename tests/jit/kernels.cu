// SPDX-License-Identifier: Apache-2.0
// Kernels nvcc turns into PTX for compiled_test.cc, which computes every expected value by itself.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdint>
#include <cstdio>

namespace cg = cooperative_groups;

extern "C" {

__global__ void MatrixMultiplyTiled(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int tile = 0; tile < n / 16; ++tile) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + tile * 16 + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(tile * 16 + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void ReduceShuffle(const int* in, unsigned long long* out, int n) {
  __shared__ long long partial[32];
  long long sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += in[i];
  for (int offset = 16; offset; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? partial[lane] : 0;
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) atomicAdd(out, static_cast<unsigned long long>(sum));
  }
}

__global__ void HistogramShared(const unsigned char* in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}

__global__ void CollatzSteps(unsigned* steps, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long x = i + 1;
  unsigned count = 0;
  while (x != 1) {
    x = (x & 1) ? 3 * x + 1 : x / 2;
    ++count;
  }
  steps[i] = count;
}

__global__ void PrintThread(int value) {
  printf("block %d thread %d: %s %5.2f %lld %c%%\n", blockIdx.x, threadIdx.x, "text", value * 0.5,
         1ll << 40, 'x');
}

__global__ void AssertBelow(int limit) {
  assert(static_cast<int>(threadIdx.x) < limit);
}

__device__ __noinline__ int SumOfBlock(int value, int* scratch) {
  scratch[threadIdx.x] = value;
  __syncthreads();
  int sum = 0;
  for (unsigned i = 0; i < blockDim.x; ++i) sum += scratch[i];
  __syncthreads();
  return sum;
}

__global__ void BarrierInFunction(int* out) {
  extern __shared__ int scratch[];
  int first = SumOfBlock(threadIdx.x, scratch);
  out[threadIdx.x] = SumOfBlock(first + threadIdx.x, scratch);
}

__device__ __noinline__ int Fibonacci(int n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}

__global__ void Recursive(int* out) {
  out[threadIdx.x] = Fibonacci(threadIdx.x);
}

__device__ int Twice(int x) {
  return 2 * x;
}
__device__ int Square(int x) {
  return x * x;
}
__device__ int Negate(int x) {
  return -x;
}
__device__ int (*const kTable[3])(int) = {Twice, Square, Negate};

__global__ void FunctionPointers(int* out) {
  out[threadIdx.x] = kTable[threadIdx.x % 3](threadIdx.x);
}

struct Shape {
  __device__ virtual float Area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Box : Shape {
  float w, h;
  __device__ Box(float a, float b) : w(a), h(b) {}
  __device__ float Area() const override { return w * h; }
};
struct Disc : Shape {
  float r;
  __device__ explicit Disc(float x) : r(x) {}
  __device__ float Area() const override { return 3.0f * r * r; }
};

__global__ void VirtualCalls(float* out) {
  Shape* shape;
  if (threadIdx.x & 1)
    shape = new Disc(threadIdx.x);
  else
    shape = new Box(threadIdx.x, 2.0f);
  out[threadIdx.x] = shape->Area();
  delete shape;
}

__global__ void LocalArray(int* out, int n) {
  int a[32];
  for (int i = 0; i < 32; ++i) a[i] = i * n + threadIdx.x;
  int at = n & 31, sum = 0;
  for (int i = 0; i < 64; ++i) {
    sum += a[at];
    at = (at * 5 + 3) & 31;
    a[at] ^= sum;
  }
  out[threadIdx.x] = sum;
}

__global__ void AggregatedCount(const int* in, int* count, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] > 0) {
    cg::coalesced_group group = cg::coalesced_threads();
    if (group.thread_rank() == 0) atomicAdd(count, group.size());
  }
}

__global__ void Votes(unsigned* out) {
  unsigned lane = threadIdx.x;
  unsigned ballot = __ballot_sync(~0u, lane % 3 == 0);
  int all = __all_sync(~0u, lane < 32), any = __any_sync(~0u, lane == 5);
  unsigned same = __match_any_sync(~0u, lane / 8);
  out[lane] = ballot;
  out[32 + lane] = all * 2 + any;
  out[64 + lane] = same;
  if (lane < 16)
    out[96 + lane] = __shfl_sync(0xffff, lane * lane, (lane + 1) % 16);
  else
    out[96 + lane] = __shfl_up_sync(0xffff0000, lane, 1, 16);
}

__global__ void HalfAxpy(const __half2* x, __half2* y, __half2 a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(a, x[i], y[i]);
}

__global__ void Bfloat(const float* in, __nv_bfloat16* out, float* back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __float2bfloat16(in[i]);
  back[i] = __bfloat162float(out[i]);
}

__global__ void AtomicDouble(double* sum, float* fsum, int* extremes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(sum, i * 0.5);
  atomicAdd(fsum, 1.0f);
  atomicMax(&extremes[0], i);
  atomicMin(&extremes[1], -i);
  atomicInc(reinterpret_cast<unsigned*>(&extremes[2]), 6);
  atomicCAS(&extremes[3], i, i + 1);
}

__global__ void GridSync(int* data, int* out, int rounds) {
  cg::grid_group grid = cg::this_grid();
  unsigned i = grid.thread_rank(), n = grid.size();
  for (int r = 0; r < rounds; ++r) {
    int value = data[(i + 1) % n];
    grid.sync();
    data[i] = value + 1;
    grid.sync();
  }
  out[i] = data[i];
}

__global__ void SpinBetweenWarps(volatile int* flag, int* out) {
  if (threadIdx.x == 0) {
    while (*flag == 0) {
    }
    out[0] = *flag;
  } else if (threadIdx.x == 40) {
    *flag = 7;
  }
  __syncthreads();
  out[1] = out[0] + 1;
}

__device__ volatile int block_flag;
__global__ void SpinBetweenBlocks(int* out) {
  // Every block waits for the one after it.
  if (threadIdx.x == 0) {
    if (blockIdx.x == gridDim.x - 1) {
      block_flag = gridDim.x;
    } else {
      while (block_flag != static_cast<int>(blockIdx.x) + 1) __nanosleep(10);
      block_flag = blockIdx.x;
    }
    if (blockIdx.x == gridDim.x - 1) {
      __threadfence();
      block_flag = blockIdx.x;
    }
    out[blockIdx.x] = blockIdx.x;
  }
}

__device__ int blocks_done;
__global__ void SpinAroundBarrier(int* out) {
  // As above, and the whole block asks.
  __shared__ int done;
  do {
    __syncthreads();
    if (threadIdx.x == 0) done = *const_cast<volatile int*>(&blocks_done);
    __syncthreads();
  } while (done != static_cast<int>(gridDim.x - 1 - blockIdx.x));
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(&blocks_done, 1) + 1;
}

__constant__ int kOffsets[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counters[4] = {10, 20, 30, 40};

__global__ void GlobalsAndConstants(int* out) {
  out[threadIdx.x] = kOffsets[threadIdx.x % 8] + atomicAdd(&counters[threadIdx.x % 4], 1) * 0;
}

__global__ void MathFunctions(const float* in, float* out, const double* din, double* dout, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = in[i];
  out[i * 6 + 0] = sinf(x);
  out[i * 6 + 1] = expf(x);
  out[i * 6 + 2] = logf(fabsf(x) + 1e-3f);
  out[i * 6 + 3] = powf(fabsf(x), 1.7f);
  out[i * 6 + 4] = tanhf(x);
  out[i * 6 + 5] = erff(x);
  double y = din[i];
  dout[i * 4 + 0] = sin(y);
  dout[i * 4 + 1] = exp(y);
  dout[i * 4 + 2] = log(fabs(y) + 1e-3);
  dout[i * 4 + 3] = cbrt(y) / sqrt(y * y + 2);
}

struct Parameters {
  int values[5];
  double scale;
  char tag;
};
__global__ void StructParameter(Parameters p, double* out, int which) {
  out[threadIdx.x] = p.values[(which + threadIdx.x) % 5] * p.scale + p.tag;
}

__global__ void ReadAt(const int* address, int* out) {
  out[threadIdx.x] = address[threadIdx.x];
}
__global__ void WriteAt(int* address, int value) {
  *address = value;
}
__global__ void SharedPastTheEnd(int* out, int index) {
  __shared__ int small[16];
  small[threadIdx.x % 16] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = small[index + threadIdx.x];
}
__global__ void MisalignedVector(char* address, float4* out) {
  out[0] = *reinterpret_cast<float4*>(address);
}
__global__ void Forever(int* flag) {
  while (atomicAdd(flag, 0) == 0) {
  }
}
__global__ void TrapInOneThread() {
  if (threadIdx.x == 3) __trap();
}
__global__ void EndlessRecursion(int* out);
__device__ __noinline__ int Deeper(int x, int* out) {
  volatile int pad[64];
  pad[x & 63] = x;
  return Deeper(x + 1, out) + pad[(x * 7) & 63] + *out;
}
__global__ void EndlessRecursion(int* out) {
  *out = Deeper(0, out);
}
__global__ void UnevenBarrier(int* out) {
  // Early exits and partial warps at a barrier.
  if (threadIdx.x >= 70) return;
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  __syncthreads();
  out[threadIdx.x] = sum;
  int votes = __syncthreads_count(threadIdx.x % 2);
  int all = __syncthreads_and(threadIdx.x < 70), any = __syncthreads_or(threadIdx.x == 1000);
  out[threadIdx.x] += votes * 1000 + all * 100000 + any * 1000000;
}
}
