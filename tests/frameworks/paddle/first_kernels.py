# SPDX-License-Identifier: Apache-2.0
"""The device found, copies, streams and events, and the first kernels of Paddle's own and of the libraries under it."""

import numpy as np
import paddle
from subject import check, fact, main, near

RNG = np.random.default_rng(1)


def uniform(*shape):
    return RNG.random(shape, np.float32)


@check
def the_device_is_found():
    fact(paddle.device.cuda.device_count() == 1, f"{paddle.device.cuda.device_count()} devices")
    fact(paddle.device.get_device() == "gpu:0", paddle.device.get_device())
    fact(paddle.device.cuda.get_device_properties(0).total_memory > 0, "no memory")


@check
def copies_come_back():
    x = uniform(1000)
    tensor = paddle.to_tensor(x)
    fact(tensor.place.is_gpu_place(), f"{tensor.place}")
    fact((tensor.numpy() == x).all(), "the bytes that came back are not those that went out")
    fact(paddle.device.cuda.memory_allocated() > 0, "no memory is counted")


@check
def streams_and_events():
    stream, event = paddle.device.cuda.Stream(), paddle.device.cuda.Event()
    event.record(stream)
    event.synchronize()
    fact(event.query(), "an event that was waited for has not completed")
    paddle.device.cuda.synchronize()


@check
def elementwise_and_sums():
    x, y = uniform(20, 30), uniform(20, 30)
    near(paddle.to_tensor(x) + paddle.to_tensor(y), x + y)
    near(paddle.to_tensor(x).sum(axis=1), x.sum(1), rtol=1e-4)
    near(
        paddle.nn.functional.softmax(paddle.to_tensor(x)),
        np.exp(x) / np.exp(x).sum(1, keepdims=True),
        rtol=1e-4,
    )


@check
def products():
    x, y = uniform(20, 30), uniform(30, 10)
    near(paddle.matmul(paddle.to_tensor(x), paddle.to_tensor(y)), x @ y, rtol=1e-3)


@check
def a_training_step():
    layers = paddle.nn.Sequential(
        paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4)
    )
    optimiser = paddle.optimizer.AdamW(0.01, parameters=layers.parameters())
    for _ in range(3):
        loss = (layers(paddle.to_tensor(uniform(4, 8))) ** 2).mean()
        loss.backward()
        optimiser.step()
        optimiser.clear_grad()
    fact(loss.numpy().shape == (), f"shape {loss.numpy().shape}")


main()
