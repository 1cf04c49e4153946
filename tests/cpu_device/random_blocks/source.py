# SPDX-License-Identifier: Apache-2.0
"""The whole program: kernels, the same functions on the host, and a main() that compares them value by value."""

import random

from .blocks import Blocks
from .expressions import INPUTS

FIELDS = [
    "v0",
    "v1",
    "v2",
    "v3",
    "v4",
    "g0",
    "g1",
    "S0",
    "S1",
    "S2",
    "H0+H1",
    "X",
]  # what is compared of each thread
HEAD = """\
#include <climits>
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
namespace cg = cooperative_groups;
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#ifdef __CUDA_ARCH__  // no fma on either side
#define FA __fadd_rn
#define FM __fmul_rn
#define ATOMIC(h, i, x) atomicAdd(&h[i], x)
#else
#define FA(a, b) ((a) + (b))
#define FM(a, b) ((a) * (b))
#define ATOMIC(h, i, x) h[i] = (int)((unsigned)h[i] + (unsigned)(x))
#endif
#define ALL for (int tid = 0; tid < THREADS; tid++)
#define REGS int &v0 = V[0][tid], &v1 = V[1][tid], &v2 = V[2][tid], &v3 = V[3][tid], &v4 = V[4][tid]; float &g0 = F[0][tid], &g1 = F[1][tid];
static int bits(float f) { int r; memcpy(&r, &f, 4); return f != f ? 0x7fffffff : r; }  // one NaN
"""
DEVICE = """\
__global__ void k{number}(const int* in, int* out, int* xs, int n) {{
  constexpr int T = {size};
  __shared__ int S0[T], S1[T], S2[T], H0[16], H1[16];
  int tid = threadIdx.x; unsigned bid = blockIdx.x; int* X = xs + bid * T;
  if (tid < 16) H0[tid] = H1[tid] = tid;
  S0[tid] = tid * 5; S1[tid] = tid ^ 9; S2[tid] = n; X[tid] = tid;
  int v0 = tid, v1 = in[tid], v2 = (int)bid * 7, v3 = n, v4 = -tid; float g0 = tid * 0.5f, g1 = 3;
  __syncthreads();
{leave}{body}
  __syncthreads();
  int* o = out + (bid * T + tid) * FIELDS;
  o[0] = v0; o[1] = v1; o[2] = v2; o[3] = v3; o[4] = v4;
  o[5] = g0 != g0 ? 0x7fffffff : __float_as_int(g0); o[6] = g1 != g1 ? 0x7fffffff : __float_as_int(g1);
  o[7] = S0[tid]; o[8] = S1[tid]; o[9] = S2[tid]; o[10] = H0[tid & 15] * 3 + H1[tid & 15]; o[11] = X[tid];
}}
"""
HOST = """\
static void h{number}(const int* in, int* out, int n, unsigned bid) {{
  constexpr int T = {size}, THREADS = {threads};
  static int S0[T], S1[T], S2[T], H0[16], H1[16], X[T], V[5][T]; static float F[2][T];
  for (int tid = 0; tid < T; tid++) {{
    if (tid < 16) H0[tid] = H1[tid] = tid;
    S0[tid] = tid * 5; S1[tid] = tid ^ 9; S2[tid] = n; X[tid] = tid;
    V[0][tid] = tid; V[1][tid] = in[tid]; V[2][tid] = (int)bid * 7; V[3][tid] = n; V[4][tid] = -tid; F[0][tid] = tid * 0.5f; F[1][tid] = 3;
  }}
{body}
  ALL {{
    int* o = out + (bid * T + tid) * FIELDS;
    for (int i = 0; i < 5; i++) o[i] = V[i][tid];
    o[5] = bits(F[0][tid]); o[6] = bits(F[1][tid]);
    o[7] = S0[tid]; o[8] = S1[tid]; o[9] = S2[tid]; o[10] = H0[tid & 15] * 3 + H1[tid & 15]; o[11] = X[tid];
  }}
}}
"""
COMPARE = """\
static int runs = 0, differ = 0;
template <class Device, class Host>
void Compare(int number, Device device, Host host, int size) {
  const int blocks = 3, count = blocks * size * FIELDS;
  std::vector<int> in(INPUTS);
  for (int i = 0; i < INPUTS; i++) in[i] = (i * 2654435761u >> 7) % 1000 - 300;
  int *d_in, *d_out, *d_x;
  cudaMalloc(&d_in, INPUTS * 4); cudaMalloc(&d_out, count * 4); cudaMalloc(&d_x, blocks * size * 4);
  cudaMemcpy(d_in, in.data(), INPUTS * 4, cudaMemcpyHostToDevice);
  for (int n : {1, 3}) {
    std::vector<int> got(count), want(count, 0);
    cudaMemset(d_out, 0, count * 4);
    device<<<blocks, size>>>(d_in, d_out, d_x, n);
    cudaError_t error = cudaGetLastError();
    if (!error) error = cudaMemcpy(got.data(), d_out, count * 4, cudaMemcpyDeviceToHost);
    if (error) { printf("kernel k%d, n %d: %s\\n", number, n, cudaGetErrorString(error)); exit(3); }
    for (int b = 0; b < blocks; b++) host(in.data(), want.data(), n, b);
    runs++;
    for (int i = 0; i < count; i++) {
      if (got[i] == want[i]) continue;
      differ++;
      printf("kernel k%d, n %d, block %d, thread %d, field %s: %d on the host, %d on the device\\n", number, n,
             i / FIELDS / size, i / FIELDS % size, kFields[i % FIELDS], want[i], got[i]);
      break;
    }
  }
  cudaFree(d_in); cudaFree(d_out); cudaFree(d_x);
}
"""


def kernel(draws, number):
    """Kernel `number` with its host's function, and the threads of its blocks. In some kernels whole warps leave before the first barrier."""
    size = threads = draws.choice([64, 96, 128, 160, 256])
    if draws.random() >= 0.7:
        threads = draws.choice([fewer for fewer in (32, 64, 96, 128) if fewer <= size])
    blocks = Blocks(draws, threads)
    blocks.block(3, draws.randint(4, 9))
    leave = f"  if (tid >= {threads}) return;\n" if threads < size else ""
    device, host = "\n".join(blocks.twin.on_device), "\n".join(blocks.twin.on_host)
    return (
        DEVICE.format(number=number, size=size, leave=leave, body=device)
        + HOST.format(number=number, size=size, threads=threads, body=host)
    ), size


def program(seed, kernels):
    """The text of a .cu file: the same for the same seed, and of fewer kernels the first ones. It ends with code 1 where a value differs."""
    draws = random.Random(seed)
    names = ", ".join(f'"{name}"' for name in FIELDS)
    made = [kernel(draws, number) for number in range(kernels)]
    calls = "".join(
        f"  Compare({number}, k{number}, h{number}, {size});\n"
        for number, (_, size) in enumerate(made)
    )
    return (
        f"{HEAD}#define FIELDS {len(FIELDS)}\n#define INPUTS {INPUTS}\nstatic const char* kFields[] = {{{names}}};\n"
        + "".join(text for text, _ in made)
        + COMPARE
        + f'int main() {{\n{calls}  printf("%d runs, %d differ\\n", runs, differ);\n  return differ != 0;\n}}\n'
    )
