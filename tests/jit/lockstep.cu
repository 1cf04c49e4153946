// SPDX-License-Identifier: Apache-2.0
// Kernels that count on a warp in lockstep: a lane reads what others of its warp stored, without a
// barrier. For lockstep_test.cc, which computes every expected value by itself.
#include <cstdint>

namespace {

constexpr unsigned kWarp = 32;

__device__ __noinline__ unsigned PlaceOf(unsigned warp, unsigned lane) {
  return warp * kWarp + lane;
}

__device__ __noinline__ unsigned SumOf(const unsigned* values) {
  unsigned sum = 0;
  for (unsigned i = 0; i < kWarp; ++i) sum += values[i];
  return sum;
}

__device__ __noinline__ void Put(unsigned* values, unsigned place, unsigned value) {
  values[place] = value;
}

__device__ __noinline__ unsigned VolatileTree(volatile unsigned* values, unsigned lane) {
  for (unsigned s = 16; s; s /= 2)
    if (lane < s) values[lane] += values[lane + s];
  return values[0];
}

}  // namespace

extern "C" {

// One warp a block: thread 0 sums.
__global__ void SumByThreadZero(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[kWarp];
  values[threadIdx.x] = in[blockIdx.x * kWarp + threadIdx.x];
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < kWarp; ++i) sum += values[i];
    out[blockIdx.x] = sum;
  }
}

// As many values as are asked for.
__global__ void SumOfSome(const unsigned* in, unsigned* out, unsigned count) {
  __shared__ unsigned values[kWarp];
  values[threadIdx.x] = in[blockIdx.x * kWarp + threadIdx.x];
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i) sum += values[i];
    out[blockIdx.x] = sum;
  }
}

// Several warps a block: lane 0 of each sums what its warp stored.
__global__ void SumByLaneZero(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[threadIdx.x] = in[i];
  if (threadIdx.x % kWarp == 0) {
    unsigned sum = 0;
#pragma unroll
    for (unsigned k = 0; k < kWarp; ++k) sum += values[threadIdx.x + k];
    out[i / kWarp] = sum;
  }
}

// A loop that stays one, by a pointer that goes on.
__global__ void SumByPointer(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x & 31;
  unsigned* own = values + warp * kWarp;
  own[lane] = in[i];
  if (lane == 0) {
    unsigned sum = 0;
#pragma unroll 1
    for (const unsigned* p = own; p != own + kWarp; ++p) sum += *p;
    out[i / kWarp] = sum;
  }
}

// From the last value to the first.
__global__ void SumBackwards(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x & 31;
  values[threadIdx.x] = in[i];
  if (lane == 0) {
    unsigned sum = 0;
#pragma unroll 1
    for (int k = kWarp - 1; k >= 0; --k) sum = sum * 3 + values[warp * kWarp + k];
    out[i / kWarp] = sum;
  }
}

__global__ void SumOfVolatile(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  volatile unsigned* seen = values;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x & 31;
  seen[threadIdx.x] = in[i];
  if (lane == 0) {
    unsigned sum = 0;
    for (unsigned k = 0; k < kWarp; ++k) sum += seen[warp * kWarp + k];
    out[i / kWarp] = sum;
  }
}

__global__ void SumInGlobal(const unsigned* in, unsigned* out, unsigned* scratch) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  scratch[i] = in[i] + 1;
  if (i % kWarp == 0) {
    unsigned sum = 0;
    for (unsigned k = 0; k < kWarp; ++k) sum += scratch[i + k];
    out[i / kWarp] = sum;
  }
}

__global__ void SumInVolatileGlobal(const unsigned* in, unsigned* out, volatile unsigned* scratch) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  scratch[i] = in[i] + 1;
  if (threadIdx.x == 0) {
    unsigned sum = 0;
#pragma unroll 1
    for (unsigned k = 0; k < kWarp; ++k) sum += scratch[blockIdx.x * kWarp + k];
    out[blockIdx.x] = sum;
  }
}

// The place comes from a function.
__global__ void SumByHelper(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x & 31;
  values[PlaceOf(warp, lane)] = in[i];
  if (lane == 0) {
    unsigned sum = 0;
    for (unsigned k = 0; k < kWarp; ++k) sum += values[PlaceOf(warp, k)];
    out[i / kWarp] = sum;
  }
}

// A function sums.
__global__ void SumInFunction(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  values[threadIdx.x] = in[i];
  if (threadIdx.x % kWarp == 0) out[i / kWarp] = SumOf(values + threadIdx.x);
}

// A function stores, another sums.
__global__ void SumOfPut(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  Put(values, threadIdx.x, in[i]);
  if (threadIdx.x % kWarp == 0) out[i / kWarp] = SumOf(values + threadIdx.x);
}

// Not unrolled: the compiler would load all values before it stores the first sum.
__global__ void SumByTree(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024 + kWarp];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  values[t] = in[i];
#pragma unroll 1
  for (unsigned s = 16; s; s /= 2)
    if (t % kWarp < s) values[t] += values[t + s];
  if (t % kWarp == 0) out[i / kWarp] = values[t];
}

__global__ void SumByVolatileTree(const unsigned* in, unsigned* out) {
  __shared__ volatile unsigned values[1024 + kWarp];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  values[t] = in[i];
  if (t % kWarp < 16) {
    values[t] += values[t + 16];
    values[t] += values[t + 8];
    values[t] += values[t + 4];
    values[t] += values[t + 2];
    values[t] += values[t + 1];
  }
  if (t % kWarp == 0) out[i / kWarp] = values[t];
}

__global__ void SumByTreeInFunction(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x;
  values[t] = in[i];
  const unsigned sum = VolatileTree(values + t / kWarp * kWarp, t % kWarp);
  if (t % kWarp == 0) out[i / kWarp] = sum;
}

// The block's own barrier comes first, and the last warp goes on without: what is summed are the
// warps' sums.
__global__ void SumOfSums(const unsigned* in, unsigned* out) {
  __shared__ unsigned values[1024], sums[kWarp];
  const unsigned t = threadIdx.x;
  values[t] = in[blockIdx.x * blockDim.x + t];
  __syncthreads();
  if (t < kWarp) {
    unsigned sum = 0;
    for (unsigned k = t; k < blockDim.x; k += kWarp) sum += values[k];
    sums[t] = sum;
    if (t == 0) {
      sum = 0;
      for (unsigned k = 0; k < kWarp; ++k) sum += sums[k];
      out[blockIdx.x] = sum;
    }
  }
}

// Round after round into the same places.
__global__ void SumOfRounds(const unsigned* in, unsigned* out, unsigned rounds) {
  __shared__ unsigned values[1024];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    values[threadIdx.x] = in[i] * (round + 1);
    if (threadIdx.x % kWarp == 0) {
#pragma unroll 1
      for (unsigned k = 0; k < kWarp; ++k) sum = sum * 5 + values[threadIdx.x + k];
    }
  }
  if (threadIdx.x % kWarp == 0) out[i / kWarp] = sum;
}

// The last lane tells the others.
__global__ void TellAll(const unsigned* in, unsigned* out) {
  __shared__ unsigned told[kWarp];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / kWarp;
  const unsigned value = in[i];
  if (threadIdx.x % kWarp == kWarp - 1) told[warp] = value;
  asm volatile("" ::: "memory");  // or the compiler has the last lane keep its value
  out[i] = value + told[warp];
}

// Which lane is read stands in memory.
__global__ void ReadByList(const unsigned* in, unsigned* out, const unsigned* list,
                           unsigned* scratch) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  scratch[i] = in[i];
  out[i] = scratch[list[i]];
}

}  // extern "C"
