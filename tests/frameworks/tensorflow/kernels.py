# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own kernels, from PTX: elementwise, reductions, indexing, gradients, an optimiser; and products by cuBLAS."""

import numpy as np
import tensorflow as tf
from subject import EXECUTES, check, fact, main, near, same

RNG = np.random.default_rng(1)
A, B = RNG.random((33, 65)).astype(np.float32), RNG.random((33, 65)).astype(np.float32) + 0.5


def on_device(function):
    def placed():
        with tf.device("/GPU:0"):
            function()

    placed.__name__ = function.__name__
    return check(placed)


@on_device
def arithmetic():
    a, b = tf.constant(A), tf.constant(B)
    near(((a + b * 2 - 1) / b).numpy(), (A + B * 2 - 1) / B)
    same((a > b).numpy(), A > B)


@on_device
def integers_that_lie_on_the_host():
    # What TensorFlow keeps in the host's memory it uploads from wherever it lies, the device's memory too.
    integers = tf.constant([[1, 2], [3, 4]])
    same(tf.ones_like(integers).numpy(), np.ones((2, 2), np.int32))
    same(tf.zeros_like(integers).numpy(), np.zeros((2, 2), np.int32))


@on_device
def functions():
    a = tf.constant(A)
    for mine, theirs in (
        (tf.sin, np.sin),
        (tf.exp, np.exp),
        (tf.math.log1p, np.log1p),
        (tf.sqrt, np.sqrt),
        (tf.tanh, np.tanh),
    ):
        near(mine(a).numpy(), theirs(A), rtol=1e-4)


@on_device
def reductions():
    a = tf.constant(A)
    near(tf.reduce_sum(a).numpy(), A.sum(), rtol=1e-4)
    near(tf.reduce_max(a, axis=1).numpy(), A.max(1))
    near(tf.nn.softmax(a).numpy(), np.exp(A) / np.exp(A).sum(1, keepdims=True), rtol=1e-4)


@on_device
def indexing():
    a = tf.constant(A)
    same(tf.gather(a, [3, 1, 2]).numpy(), A[[3, 1, 2]])
    same(tf.transpose(a).numpy(), A.T)
    same(tf.concat([a, a], 0).numpy(), np.concatenate([A, A]))


@on_device
def products():
    near(tf.matmul(tf.constant(A), tf.constant(B), transpose_b=True).numpy(), A @ B.T, rtol=1e-4)


# Small ones go to a kernel whose warps hand a tile from lane to lane with no barrier.
@on_device
def complex_products():
    for n in (1, 5, 16, 32, 33):
        x = RNG.integers(-3, 4, (n, n)) + 1j * RNG.integers(-3, 4, (n, n))
        near(
            tf.matmul(tf.constant(x), tf.constant(x[::-1].copy())).numpy(), x @ x[::-1], rtol=1e-12
        )


@on_device
def gradients():
    x = tf.Variable(A)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.tanh(x) ** 2)
    near(tape.gradient(y, x).numpy(), 2 * np.tanh(A) * (1 - np.tanh(A) ** 2), rtol=1e-3, atol=1e-5)


@on_device
def training():
    want = RNG.random((65, 1)).astype(np.float32)
    w, x, y = tf.Variable(tf.zeros((65, 1))), tf.constant(A), tf.constant(A @ want)
    hosts = np.zeros((65, 1), np.float32)
    losses = []
    for _ in range(10):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - y) ** 2)
        w.assign_sub(0.02 * tape.gradient(loss, w))
        losses.append(float(loss))
        hosts -= 0.02 * 2 * A.T @ (A @ hosts - A @ want) / 33
    near(w.numpy(), hosts, rtol=1e-3, atol=1e-4)
    fact(not EXECUTES or losses[-1] < losses[0], f"losses {losses}")


main()
