# SPDX-License-Identifier: Apache-2.0
"""Holds a number on the device until SIGTERM, then reads it back as a program saves its work, and ends well."""

import ctypes
import signal
import sys

NUMBER = 7

cuda = ctypes.CDLL("libcuda.so.1")


def must(code):
    assert code == 0, code


def save(*_):
    saved = ctypes.c_uint32()
    must(cuda.cuMemcpyDtoH_v2(ctypes.byref(saved), memory, ctypes.c_size_t(4)))
    print("saved", saved.value, flush=True)
    sys.exit(0)


context, memory = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4)))
must(cuda.cuMemsetD32_v2(memory, NUMBER, ctypes.c_size_t(1)))
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    signal.pause()
