# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, broadcasting, casts, user-defined kernels."""

import cupy as cp
import numpy as np
from subject import check, main, near, same

RNG = np.random.default_rng(1)
A, B = RNG.random((33, 65), np.float32), RNG.random((33, 65), np.float32) + 0.5


@check
def arithmetic():
    a, b = cp.asarray(A), cp.asarray(B)
    near((a + b * 2 - 1) / b, (A + B * 2 - 1) / B)
    same(a > b, A > B)
    near(a[:, None, :5] * b[None, :, :5], A[:, None, :5] * B[None, :, :5])


@check
def functions():
    a = cp.asarray(A)
    for name in ("sin", "exp", "log1p", "sqrt", "tanh", "floor"):
        near(getattr(cp, name)(a), getattr(np, name)(A))


@check
def types():
    for dtype in (np.int8, np.int32, np.int64, np.float16, np.float64, np.complex64):
        near(cp.asarray(A * 100).astype(dtype), (A * 100).astype(dtype), rtol=1e-3)
    same(cp.arange(100, dtype=cp.int64) ** 2 % 7, np.arange(100, dtype=np.int64) ** 2 % 7)


@check
def kernels_of_the_user():
    squared = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squared")
    near(squared(cp.asarray(A), cp.asarray(B)), (A - B) ** 2)
    summed = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length")
    near(summed(cp.asarray(A)), np.sqrt((A * A).sum()), rtol=1e-3)
    raw = cp.RawKernel(
        'extern "C" __global__ void twice(float* x, int n) {'
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }",
        "twice",
    )
    a = cp.asarray(A)
    raw((A.size // 64 + 1,), (64,), (a, np.int32(A.size)))
    near(a, A * 2)


@check
def fusion():
    @cp.fuse()
    def fused(x, y):
        return cp.sqrt(x * x + y * y)

    near(fused(cp.asarray(A), cp.asarray(B)), np.sqrt(A * A + B * B))


main()
