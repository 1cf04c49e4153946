# SPDX-License-Identifier: Apache-2.0
"""Kernels written in Python: grids, shared memory, atomics, device functions, reductions, streams."""

import numpy as np
from numba import cuda, float32
from subject import check, main, near, same

A = np.random.default_rng(1).random(5000, np.float32)


@check
def grids():
    @cuda.jit
    def twice(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    device = cuda.to_device(A)
    twice[(A.size + 127) // 128, 128](device)
    near(device.copy_to_host(), A * 2)


@check
def shared_memory_and_barriers():
    @cuda.jit
    def reverse(x):
        part = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        part[i] = x[cuda.blockIdx.x * 64 + i]
        cuda.syncthreads()
        x[cuda.blockIdx.x * 64 + i] = part[63 - i]

    device = cuda.to_device(A[:640])
    reverse[10, 64](device)
    same(device.copy_to_host(), A[:640].reshape(10, 64)[:, ::-1].ravel())


@check
def atomics():
    @cuda.jit
    def count(x, bins):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(bins, int(x[i] * 16), 1)

    bins = cuda.to_device(np.zeros(16, np.int32))
    count[40, 128](cuda.to_device(A), bins)
    same(bins.copy_to_host(), np.bincount((A * 16).astype(np.int32), minlength=16).astype(np.int32))


@check
def device_functions():
    @cuda.jit(device=True)
    def polynomial(x):
        return x * x + 3 * x

    @cuda.jit
    def apply(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = polynomial(x[i])

    out = cuda.device_array_like(A)
    apply[40, 128](cuda.to_device(A), out)
    near(out.copy_to_host(), A * A + 3 * A)


@check
def reductions():
    total = cuda.reduce(lambda a, b: a + b)
    near(np.float32(total(cuda.to_device(A))), A.sum(), rtol=1e-4)


@check
def streams():
    stream = cuda.stream()
    with stream.auto_synchronize():
        device = cuda.to_device(A, stream=stream)
        host = device.copy_to_host(stream=stream)
    same(host, A)


main()
