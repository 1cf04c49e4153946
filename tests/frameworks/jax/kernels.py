# SPDX-License-Identifier: Apache-2.0
"""What XLA compiles to PTX: elementwise, reductions, indexing, loops, gradients, random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from subject import check, main, near, same

RNG = np.random.default_rng(1)
A, B = RNG.random((33, 65), np.float32), RNG.random((33, 65), np.float32) + 0.5


@check
def arithmetic():
    near(jax.jit(lambda a, b: (a + b * 2 - 1) / b)(A, B), (A + B * 2 - 1) / B)
    same(jnp.asarray(A) > jnp.asarray(B), A > B)


@check
def functions():
    for name in ("sin", "exp", "log1p", "sqrt", "tanh", "floor"):
        near(getattr(jnp, name)(A), getattr(np, name)(A), rtol=1e-4)


@check
def reductions():
    near(jnp.sum(A), A.sum(), rtol=1e-4)
    near(jnp.max(A, axis=1), A.max(1))
    near(jnp.mean(A, axis=0), A.mean(0), rtol=1e-4)
    near(jax.nn.softmax(jnp.asarray(A)), np.exp(A) / np.exp(A).sum(1, keepdims=True), rtol=1e-4)


@check
def indexing():
    order = RNG.permutation(65)
    same(jnp.asarray(A)[:, order], A[:, order])
    same(jnp.asarray(A)[::2, 3:9].T, A[::2, 3:9].T)
    same(jnp.concatenate([A, B]), np.concatenate([A, B]))


@check
def sorting():
    same(jnp.sort(A, axis=1), np.sort(A, axis=1))


@check
def loops():
    want = 1.0
    for i in range(10):
        want = want * 1.5 + i
    near(
        jax.lax.fori_loop(0, 10, lambda i, x: x * 1.5 + i, jnp.float32(1)),
        np.float32(want),
        rtol=1e-4,
    )
    _, sums = jax.lax.scan(
        lambda total, x: (total + x, total + x), jnp.float32(0), jnp.arange(8, dtype=jnp.float32)
    )
    same(sums, np.cumsum(np.arange(8, dtype=np.float32)))


@check
def gradients():
    near(
        jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2))(A),
        2 * np.tanh(A) * (1 - np.tanh(A) ** 2),
        rtol=1e-3,
        atol=1e-5,
    )


@check
def random_numbers_are_those_of_the_host():
    key = jax.random.key(7)
    got = jax.random.uniform(key, (1000,))
    with jax.default_device(jax.devices("cpu")[0]):
        want = jax.random.uniform(jax.random.key(7), (1000,))
    same(got, want)


@check
def maps():
    near(jax.vmap(lambda row: jnp.sum(row * row))(A), (A * A).sum(1), rtol=1e-4)


main()
