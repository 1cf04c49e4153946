# SPDX-License-Identifier: Apache-2.0
"""The device found, its properties, copies both ways."""

import jax
import numpy as np
from subject import check, fact, main, near, same


@check
def the_device_is_found():
    devices = jax.devices()
    fact(len(devices) == 1 and devices[0].platform == "gpu", f"devices: {devices}")
    fact(jax.default_backend() == "gpu", f"backend {jax.default_backend()}")


@check
def its_memory_is_told():
    stats = jax.devices()[0].memory_stats()
    fact(stats["bytes_limit"] > 0, f"statistics: {stats}")


@check
def copies_come_back():
    for dtype in (np.float32, np.int8, np.complex64):
        want = np.arange(100000).astype(dtype)
        same(jax.device_put(want), want)


@check
def copies_on_the_device():
    want = np.arange(4096, dtype=np.float32)
    near(jax.device_put(jax.device_put(want), jax.devices()[0]), want)


main()
