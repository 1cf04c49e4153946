#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small, self-checking program per framework: python3 frameworks.py torch|cupy|numba|jax

Prints one PASS or FAIL line; exit code 77 when the framework cannot be imported.
"""

from __future__ import annotations

import sys
import time


def check_torch() -> str:
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    device = torch.device("cuda")
    a, b = torch.randn(384, 256), torch.randn(256, 320)
    error = (
        ((a.to(device) @ b.to(device)).cpu().double() - a.double() @ b.double()).abs().max().item()
    )
    # A dot product of 256 terms of size about 1: rounding stays far below 256 * 2^-24 * 256.
    expect(error < 4e-3, f"matmul is off by {error:.3g}")

    points = torch.randn(512, 2)
    labels = (points[:, 0] * points[:, 1] > 0).float().unsqueeze(1)
    inputs, wanted = points.to(device), labels.to(device)
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    first = last = None
    started = time.monotonic()
    for step in range(200):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(inputs), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, 199):
            first, last = (loss.item() if first is None else first), loss.item()
    took = time.monotonic() - started
    expect(
        last < first / 4, f"the loss went from {first:.3f} to {last:.3f}: it should fall fourfold"
    )
    right = ((model.cpu()(points) > 0).float() == labels).float().mean().item()
    expect(
        right > 0.95,
        f"the trained weights, run on the CPU, are right for {right:.0%} of the points",
    )
    return f"{torch.cuda.get_device_name()}: matmul within {error:.2g}, loss {first:.3f} to {last:.3f}, {200 / took:.0f} steps/s"


def check_cupy() -> str:
    import cupy
    import numpy

    random = numpy.random.default_rng(0)
    a, b = random.standard_normal((256, 200)), random.standard_normal((200, 300))
    error = float(numpy.abs(cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b)) - a @ b).max())
    expect(error < 1e-10, f"matmul (double) is off by {error:.3g}")
    square = cupy.ElementwiseKernel(
        "float64 x", "float64 y", "y = x * x", "square"
    )  # compiled by NVRTC here
    expect(
        bool(numpy.array_equal(cupy.asnumpy(square(cupy.asarray(a))), a * a)),
        "an elementwise kernel gives other squares",
    )
    values = random.integers(-1000, 1000, 100_000)
    expect(int(cupy.asarray(values).sum()) == int(values.sum()), "an integer sum differs")
    spectrum = cupy.asnumpy(cupy.fft.fft(cupy.asarray(a[0])))
    expect(bool(numpy.allclose(spectrum, numpy.fft.fft(a[0]), atol=1e-9)), "an FFT differs")
    return f"matmul within {error:.2g}, NVRTC kernel, sum, FFT"


def check_numba() -> str:
    import numpy
    from numba import cuda

    @cuda.jit
    def add(a, b, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a[i] + b[i]

    a, b = numpy.arange(10_000, dtype=numpy.int64), numpy.full(10_000, 7, dtype=numpy.int64)
    out = cuda.device_array_like(a)
    add[(a.size + 255) // 256, 256](cuda.to_device(a), cuda.to_device(b), out)
    expect(bool((out.copy_to_host() == a + b).all()), "a sum of integers differs")
    return "10000 sums equal"


def check_jax() -> str:
    import os

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp
    import numpy

    device = jax.devices()[0]
    expect(device.platform != "cpu", "jax sees no GPU")
    a = numpy.random.default_rng(0).standard_normal((128, 96)).astype(numpy.float32)
    product = numpy.asarray(jax.jit(lambda x: jnp.matmul(x, x.T, precision="highest"))(a))
    error = float(numpy.abs(product - a.astype(numpy.float64) @ a.T.astype(numpy.float64)).max())
    expect(error < 1e-3, f"matmul is off by {error:.3g}")
    gradient = numpy.asarray(jax.grad(lambda x: (jnp.tanh(x) ** 2).sum())(a))
    tanh = numpy.tanh(a.astype(numpy.float64))
    expect(
        bool(numpy.allclose(gradient, 2 * tanh * (1 - tanh**2), atol=1e-5)), "a gradient differs"
    )
    return f"{device.device_kind}: matmul within {error:.2g}, gradient"


class Wrong(Exception):
    pass


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def main() -> int:
    checks = {"torch": check_torch, "cupy": check_cupy, "numba": check_numba, "jax": check_jax}
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in checks:
        print(f"frameworks.py: no framework '{name}': {' '.join(checks)}", file=sys.stderr)
        return 2
    try:
        __import__(name)
    except ImportError as error:
        print(f"SKIP {name}: {error}")
        return 77
    try:
        print(f"PASS {name}: {checks[name]()}")
        return 0
    except Exception as error:  # whatever the framework raises is a failure of this check
        print(
            f"FAIL {name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
