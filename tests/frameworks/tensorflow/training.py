# SPDX-License-Identifier: Apache-2.0
"""Networks trained for 200 steps on the device, and from the same weights on the same data on TensorFlow's own CPU: the loss of
each step and the weights at the end. Nothing may be placed elsewhere than asked for, and no product is rounded to TF32."""

import functools

import numpy as np
import tensorflow as tf
from losses import same_losses
from subject import check, fact, main, near

STEPS, BATCH, BATCHES = 200, 16, 5
RNG = np.random.default_rng(3)
IMAGES = RNG.standard_normal((BATCHES, BATCH, 12, 12, 3)).astype(np.float32)
SERIES = RNG.standard_normal((BATCHES, BATCH, 10, 6)).astype(np.float32)
LABELS = RNG.integers(0, 5, (BATCHES, BATCH))
layers, optimizers = tf.keras.layers, tf.keras.optimizers

tf.config.set_soft_device_placement(False)
tf.config.experimental.enable_tensor_float_32_execution(False)


class FusedNormalization(layers.Layer):
    """Keras' own normalises by single operations, this by the one of TensorFlow that goes to cuDNN."""

    def build(self, shape):
        self.scale = self.add_weight(shape=shape[-1:], initializer="ones")
        self.offset = self.add_weight(shape=shape[-1:], initializer="zeros")

    def call(self, x):
        return tf.compat.v1.nn.fused_batch_norm(
            x, tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.offset)
        )[0]


def convolutional():
    return tf.keras.Sequential(
        [
            layers.Input(IMAGES.shape[2:]),
            # A bias before a normalisation has no gradient but rounding's, of which Adam makes whole steps.
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(2),
            layers.Conv2D(12, 3, use_bias=False),
            FusedNormalization(),
            layers.ReLU(),
            layers.AveragePooling2D(2),
            layers.Flatten(),
            layers.Dense(24, activation="relu"),
            layers.Dense(5),
        ]
    )


def recurrent(by_cudnn):
    return tf.keras.Sequential(
        [
            layers.Input(SERIES.shape[2:]),
            layers.LSTM(16, return_sequences=True, use_cudnn=by_cudnn),
            layers.LSTM(12, use_cudnn=by_cudnn),
            layers.Dense(5),
        ]
    )


def draw_weights(model):
    rng = np.random.default_rng(4)
    model.set_weights(
        [
            value
            if value.ndim == 1
            else (rng.standard_normal(value.shape) * np.prod(value.shape[:-1]) ** -0.5).astype(
                np.float32
            )
            for value in model.get_weights()
        ]
    )


def trained(device, make, optimiser, inputs, **function):
    """The loss of each step, the weights at the end, and what operations the step is made of."""
    with tf.device(device):
        model, loss_of, optimiser = (
            make(),
            tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            optimiser(),
        )
        draw_weights(model)
        optimiser.build(model.trainable_variables)

        @tf.function(**function)
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = loss_of(y, model(x, training=True))
            slopes = tape.gradient(loss, model.trainable_variables)
            optimiser.apply_gradients(zip(slopes, model.trainable_variables))
            return loss

        batches = [(tf.constant(x), tf.constant(y)) for x, y in zip(inputs, LABELS)]
        losses = np.array([step(*batches[i % BATCHES]).numpy() for i in range(STEPS)])
        operations = {
            operation.type
            for operation in step.get_concrete_function(*batches[0]).graph.get_operations()
        }
    return losses, model.get_weights(), operations


def compare(name, on_device, on_host):
    losses, weights, operations = on_device
    host_losses, host_weights, _ = on_host
    fact(
        np.mean(host_losses[-BATCHES:]) < 0.7 * np.mean(host_losses[:BATCHES]),
        f"the host does not learn: {host_losses}",
    )
    same_losses(name, losses, host_losses)
    for weight, host_weight in zip(weights, host_weights):
        near(weight, host_weight, rtol=1e-3, atol=1e-5)
    return operations


@check
def a_convolutional_network():
    adam = functools.partial(optimizers.Adam, 1e-3)
    operations = compare(
        "convolutions",
        trained("/GPU:0", convolutional, adam, IMAGES),
        trained("/CPU:0", convolutional, adam, IMAGES),
    )
    for operation in (
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "FusedBatchNormV3",
        "FusedBatchNormGradV3",
        "MaxPoolGrad",
        "AvgPoolGrad",
    ):
        fact(operation in operations, f"the step has no {operation}: {sorted(operations)}")


@check
def a_recurrent_network_by_cudnn():
    adam = functools.partial(optimizers.Adam, 2e-3)
    operations = compare(
        "LSTM by cuDNN",
        trained("/GPU:0", functools.partial(recurrent, "auto"), adam, SERIES),
        trained("/CPU:0", functools.partial(recurrent, False), adam, SERIES),
    )
    fact(
        {"CudnnRNNV3", "CudnnRNNBackpropV3"} <= operations,
        f"the step does not use cuDNN's: {sorted(operations)}",
    )


@check
def a_recurrent_network_step_by_step():
    adam = functools.partial(optimizers.Adam, 2e-3)
    plain = functools.partial(recurrent, False)
    operations = compare(
        "LSTM of single operations",
        trained("/GPU:0", plain, adam, SERIES),
        trained("/CPU:0", plain, adam, SERIES),
    )
    fact("CudnnRNNV3" not in operations, "the step uses cuDNN's")


@check
def a_convolutional_network_compiled_by_xla():
    adam = functools.partial(optimizers.Adam, 1e-3)
    compare(
        "convolutions by XLA",
        trained("/GPU:0", convolutional, adam, IMAGES, jit_compile=True),
        trained("/CPU:0", convolutional, adam, IMAGES),
    )


main()
