# SPDX-License-Identifier: Apache-2.0
"""Kernels in Triton, launched on memory that no PyTorch made: what `@triton.jit` compiles, the driver loads and runs."""

import numpy as np
import triton
import triton.language as tl
import triton_memory
from subject import check, main, near, same
from triton_memory import Array, device

RNG = np.random.default_rng(1)
triton_memory.start()


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, other=float("-inf"))
    top = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * columns + at, top / tl.sum(top, 0), at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, other=0.0)
    mean = tl.sum(row, 0) / columns
    apart = tl.where(at < columns, row - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(apart * apart, 0) / columns + epsilon)
    value = apart * scale * tl.load(weight + at, at < columns) + tl.load(bias + at, at < columns)
    tl.store(out + tl.program_id(0) * columns + at, value, at < columns)


@triton.jit
def counts(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + at, at < n, other=0), 1, at < n)


@triton.jit
def product(a, b, out, m, n, k, PRECISION: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        left = tl.load(
            a + rows[:, None] * k + inner[None, :],
            (rows[:, None] < m) & (inner[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + inner[:, None] * n + columns[None, :],
            (inner[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        total = tl.dot(left, right, total, input_precision=PRECISION)
    tl.store(
        out + rows[:, None] * n + columns[None, :],
        total,
        (rows[:, None] < m) & (columns[None, :] < n),
    )


@check
def vectors_are_added():
    x, y = RNG.random(10000, np.float32), RNG.random(10000, np.float32)
    a, b, out = device(x), device(y), Array(x.shape, x.dtype)
    add[(triton.cdiv(x.size, 1024),)](a, b, out, x.size, BLOCK=1024)
    same(out, x + y)


@check
def rows_of_softmax():
    x = RNG.standard_normal((37, 300)).astype(np.float32)
    a, out = device(x), Array(x.shape, x.dtype)
    softmax[(37,)](a, out, 300, BLOCK=512)
    top = np.exp(x - x.max(1, keepdims=True))
    near(out, top / top.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)


@check
def layers_are_normalised():
    x, w, b = (
        RNG.standard_normal((20, 200)).astype(np.float32),
        RNG.random(200, np.float32),
        RNG.random(200, np.float32),
    )
    a, weight, bias, out = device(x), device(w), device(b), Array(x.shape, x.dtype)
    layer_norm[(20,)](a, weight, bias, out, 200, 1e-5, BLOCK=256)
    near(
        out,
        (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w + b,
        rtol=1e-3,
        atol=1e-4,
    )


@check
def atomics_count():
    x = RNG.integers(0, 16, 5000).astype(np.int32)
    a, out = device(x), device(np.zeros(16, np.int32))
    counts[(triton.cdiv(x.size, 256),)](a, out, x.size, BLOCK=256)
    same(out, np.bincount(x, minlength=16).astype(np.int32))


def multiplies(dtype, precision, rtol, atol):
    a, b = (RNG.random(shape, np.float32).astype(dtype) for shape in ((70, 50), (50, 90)))
    left, right, out = device(a), device(b), Array((70, 90), np.float32)
    product[(triton.cdiv(70, 32), triton.cdiv(90, 32))](
        left, right, out, 70, 90, 50, PRECISION=precision, BLOCK=32
    )
    near(out, a.astype(np.float32) @ b.astype(np.float32), rtol=rtol, atol=atol)


@check
def matrices_multiply_in_f32():
    multiplies(np.float32, "ieee", 1e-4, 1e-4)


@check
def matrices_multiply_on_tensor_cores():
    multiplies(np.float16, "ieee", 1e-2, 1e-2)


main()
