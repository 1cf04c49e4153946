// SPDX-License-Identifier: Apache-2.0
// Warp and block primitives, atomics, narrow floats, textures, matrix fragments, CUB.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <mma.h>

#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/barrier>

namespace cg = cooperative_groups;

__global__ void Shuffles(int* out) {
  int v = threadIdx.x;
  v += __shfl_down_sync(~0u, v, 16);
  v += __shfl_up_sync(~0u, v, 3, 8);
  v += __shfl_xor_sync(~0u, v, 1);
  v += static_cast<int>(__shfl_sync(~0u, static_cast<double>(v), 5));
  v += __ballot_sync(~0u, v & 1) + __any_sync(~0u, v > 3) + __all_sync(~0u, v > 9);
  v += __match_any_sync(~0u, v) + __activemask() + __syncthreads_count(v) + __syncthreads_or(v);
#if __CUDA_ARCH__ >= 800
  v += __reduce_add_sync(~0u, v) + __reduce_min_sync(~0u, v);
#endif
  out[threadIdx.x] = v;
}

__global__ void Atomics(int* i, unsigned long long* u, float* f, double* d, __half2* h) {
  atomicAdd(i, 1);
  atomicMin(i + 1, 3);
  atomicCAS(u, 1ull, 2ull);
  atomicExch(u + 1, 7ull);
  atomicInc(reinterpret_cast<unsigned*>(i) + 2, 9);
  atomicAdd(f, 1.5f);
  atomicAdd(d, 2.5);
  atomicAdd(h, __floats2half2_rn(1, 2));
  cuda::atomic_ref<int, cuda::thread_scope_device>(*i).fetch_add(1, cuda::memory_order_acq_rel);
  __threadfence_system();
}

__global__ void Narrow(__half* h, __nv_bfloat16* b, __nv_fp8_e4m3* q) {
  h[0] = __hfma(h[1], h[2], h[3]) + hexp(h[4]) * hsqrt(h[5]);
  b[0] = b[1] * b[2] + __float2bfloat16(static_cast<float>(h[6]));
  q[0] = __nv_fp8_e4m3(static_cast<float>(q[1]) * 2);
  reinterpret_cast<__half2*>(h)[4] =
      __hmax2(reinterpret_cast<__half2*>(h)[5], __hneg2(reinterpret_cast<__half2*>(h)[6]));
}

__global__ void Blocks(float* out, const float* in) {
  using Reduce = cub::BlockReduce<float, 128>;
  using Scan = cub::BlockScan<int, 128>;
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ union {
    Reduce::TempStorage reduce;
    Scan::TempStorage scan;
    Sort::TempStorage sort;
  } temp;
  float sum = Reduce(temp.reduce).Sum(in[threadIdx.x]);
  __syncthreads();
  int x = threadIdx.x;
  Scan(temp.scan).ExclusiveSum(x, x);
  __syncthreads();
  unsigned keys[4] = {threadIdx.x, 3u * threadIdx.x, 7u, 11u};
  Sort(temp.sort).Sort(keys);
  out[threadIdx.x] = sum + x + keys[1];
}

__global__ void Groups(int* out, const int* in) {
  __shared__ int tile[256];
  cg::thread_block block = cg::this_thread_block();
  cg::memcpy_async(block, tile, in, sizeof tile);
  cg::wait(block);
  auto warp = cg::tiled_partition<32>(block);
  int total = cg::reduce(warp, tile[threadIdx.x], cg::plus<int>());
  cg::coalesced_group active = cg::coalesced_threads();
  out[threadIdx.x] = total + active.size();
  cg::this_grid().sync();
}

__global__ void Barriers(int* out) {
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  barrier.arrive_and_wait();
  out[threadIdx.x] = clock() + static_cast<int>(clock64());
}

__global__ void Textures(float4* out, cudaTextureObject_t t, cudaSurfaceObject_t s) {
  out[0] = tex2D<float4>(t, 0.5f, threadIdx.x);
  out[1] = tex1Dfetch<float4>(t, threadIdx.x);
  out[2] = tex3D<float4>(t, 1, 2, 3);
  out[3] = tex2DLayered<float4>(t, 1, 2, 3);
  surf2Dwrite(out[1], s, 16 * threadIdx.x, 3);
  out[4] = surf2Dread<float4>(s, 16, 3);
}

__global__ void Matrices(float* c, const __half* a, const __half* b) {
  using namespace nvcuda;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
