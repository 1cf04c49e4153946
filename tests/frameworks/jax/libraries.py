# SPDX-License-Identifier: Apache-2.0
"""What goes to cuBLAS and cuSOLVER, and a step of training."""

import jax
import jax.numpy as jnp
import numpy as np
from subject import EXECUTES, check, fact, main, near

RNG = np.random.default_rng(1)
A, B = RNG.random((64, 48), np.float32), RNG.random((48, 32), np.float32)


@check
def products():
    near(jax.jit(jnp.matmul)(A, B), A @ B, rtol=1e-4)
    near(jnp.einsum("ij,kj->ik", A, A), A @ A.T, rtol=1e-4)


@check
def batched_products():
    a, b = RNG.random((5, 16, 24), np.float32), RNG.random((5, 24, 8), np.float32)
    near(jnp.matmul(a, b), a @ b, rtol=1e-4)


@check
def training():
    want = RNG.random((48, 1), np.float32)
    x, y = jnp.asarray(A), jnp.asarray(A @ want)

    @jax.jit
    def step(w):
        loss, slope = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        return w - 0.05 * slope, loss

    w, losses = jnp.zeros((48, 1)), []
    for _ in range(20):
        w, loss = step(w)
        losses.append(float(loss))
    hosts = np.zeros((48, 1), np.float32)
    for _ in range(20):
        hosts -= 0.05 * 2 * A.T @ (A @ hosts - A @ want) / 64
    near(w, hosts, rtol=1e-3, atol=1e-4)
    fact(not EXECUTES or losses[-1] < losses[0], f"losses {losses[0]} to {losses[-1]}")


main()
