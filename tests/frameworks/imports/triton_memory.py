# SPDX-License-Identifier: Apache-2.0
"""Arrays for Triton's kernels without PyTorch: numpy on the host, cuda-bindings on the device."""

import numpy as np
from cuda.bindings import driver


def call(name, *args):
    code, *values = getattr(driver, name)(*args)
    if code != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{name}: {code.name}")
    return values[0] if len(values) == 1 else values or None


class Array:
    """What Triton takes for a tensor: `data_ptr` and `dtype`."""

    def __init__(self, shape, dtype):
        self.shape, self.numpy_type = tuple(shape), np.dtype(dtype)
        self.bytes = int(np.prod(self.shape)) * self.numpy_type.itemsize
        self.address = int(call("cuMemAlloc", self.bytes))
        self.dtype = {"float32": "fp32", "float16": "fp16", "int32": "i32"}[self.numpy_type.name]

    def data_ptr(self):
        return self.address

    def get(self):
        out = np.empty(self.shape, self.numpy_type)
        call("cuMemcpyDtoH", out.ctypes.data, self.address, self.bytes)
        return out

    def __del__(self):
        driver.cuMemFree(self.address)


def device(array):
    out = Array(array.shape, array.dtype)
    array = np.ascontiguousarray(array)
    call("cuMemcpyHtoD", out.address, array.ctypes.data, out.bytes)
    return out


def start():
    call("cuInit", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))
