# SPDX-License-Identifier: Apache-2.0
"""The driver API as far as these programs need it, by ctypes: a context, device memory, a stream."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")


def check(status):
    assert status == 0, f"CUDA error {status}"


def start():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))


def new_stream():
    stream = ctypes.c_void_p()
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    return stream


class Memory:
    """Device memory of `count` elements of a ctypes type."""

    def __init__(self, element, count, values=None):
        self.type = element * count
        self.address = ctypes.c_uint64()
        check(
            cuda.cuMemAlloc_v2(
                ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(self.type))
            )
        )
        check(cuda.cuMemsetD8_v2(self.address, 0, ctypes.c_size_t(ctypes.sizeof(self.type))))
        if values is not None:
            self.write(values)

    def write(self, values):
        check(
            cuda.cuMemcpyHtoD_v2(
                self.address, self.type(*values), ctypes.c_size_t(ctypes.sizeof(self.type))
            )
        )

    def read(self, stream=None):
        check(cuda.cuStreamSynchronize(stream))
        host = self.type()
        check(cuda.cuMemcpyDtoH_v2(host, self.address, ctypes.c_size_t(ctypes.sizeof(self.type))))
        return list(host)
