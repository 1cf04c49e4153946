# SPDX-License-Identifier: Apache-2.0
"""The device found, its details, copies, placement."""

import numpy as np
import tensorflow as tf
from subject import check, fact, main, same


@check
def the_device_is_found():
    devices = tf.config.list_physical_devices("GPU")
    fact(len(devices) == 1, f"devices: {devices}")
    details = tf.config.experimental.get_device_details(devices[0])
    fact(details["compute_capability"][0] >= 8, f"details: {details}")


@check
def copies_come_back():
    with tf.device("/GPU:0"):
        for dtype in (np.float32, np.int64, np.complex64):
            want = np.arange(100000).astype(dtype)
            got = tf.identity(tf.constant(want))
            fact("GPU:0" in got.device, f"placed on {got.device}")
            same(got.numpy(), want)


main()
