# SPDX-License-Identifier: Apache-2.0
"""A network trained for 200 steps on the device, step by step and in one scan, against the same on JAX's own CPU: each step's
loss and the weights at the end."""

import jax
import jax.numpy as jnp
import numpy as np
from losses import same_losses
from subject import check, fact, main, near

STEPS, RATE = 200, 1e-2
RNG = np.random.default_rng(2)
X = RNG.standard_normal((64, 12)).astype(np.float32)
LABELS = RNG.integers(0, 4, 64)
SHAPES = ((12, 32), (32, 32), (32, 4))
jax.config.update("jax_default_matmul_precision", "highest")


def starting():
    rng = np.random.default_rng(5)
    weights = [
        {
            "w": (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32),
            "b": np.zeros(shape[1], np.float32),
        }
        for shape in SHAPES
    ]
    nothing = jax.tree.map(np.zeros_like, weights)
    return weights, nothing, nothing


def loss_of(weights, x, labels):
    for layer in weights[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    scores = jax.nn.log_softmax(x @ weights[-1]["w"] + weights[-1]["b"])
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], 1))


def step(state, number):
    """One of Adam; `number` counts from one."""
    weights, first, second = state
    loss, slopes = jax.value_and_grad(loss_of)(weights, jnp.asarray(X), jnp.asarray(LABELS))
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
    near_one, nearer_one = 1 - 0.9**number, 1 - 0.999**number
    weights = jax.tree.map(
        lambda w, m, v: w - RATE * (m / near_one) / (jnp.sqrt(v / nearer_one) + 1e-8),
        weights,
        first,
        second,
    )
    return (weights, first, second), loss


def by_steps():
    compiled, state, losses = jax.jit(step), starting(), []
    for number in range(1, STEPS + 1):
        state, loss = compiled(state, jnp.float32(number))
        losses.append(loss)
    return np.array(losses), state[0]


def by_scan():
    state, losses = jax.jit(
        lambda state: jax.lax.scan(step, state, jnp.arange(1, STEPS + 1, dtype=jnp.float32))
    )(starting())
    return np.asarray(losses), state[0]


def compare(name, train):
    losses, weights = train()
    with jax.default_device(jax.devices("cpu")[0]):
        host_losses, host_weights = train()
    fact(host_losses[-1] < 0.7 * host_losses[0], f"the host does not learn: {host_losses}")
    same_losses(name, losses, host_losses)
    for got, want in zip(jax.tree.leaves(weights), jax.tree.leaves(host_weights)):
        fact(got.devices() != want.devices(), f"both were trained on {want.devices()}")
        near(got, want, rtol=1e-3, atol=1e-5)


@check
def step_by_step():
    compare("a step compiled", by_steps)


@check
def in_one_scan():
    compare("all steps compiled", by_scan)


main()
