# SPDX-License-Identifier: Apache-2.0
"""Stands for a training job: holds device memory and says each second that it is still at work."""

import ctypes
import time

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    if code != 0:
        raise SystemExit(f"{name}: error {code}")


call("cuInit", 0)
context = ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
memory = ctypes.c_uint64()
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(64 << 20))
step = 0
while True:
    step += 1
    call("cuMemsetD32_v2", memory, ctypes.c_uint(step), ctypes.c_size_t(16 << 20))
    call("cuCtxSynchronize")
    print(f"step {step}", flush=True)
    time.sleep(1)
