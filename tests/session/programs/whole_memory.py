# SPDX-License-Identifier: Apache-2.0
"""Prints how much device memory there is, and the driver's codes for all of it and for 2 MiB more."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, free, total, at = (
    ctypes.c_void_p(),
    ctypes.c_size_t(),
    ctypes.c_size_t(),
    ctypes.c_uint64(),
)
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print("total", total.value)
print("all", cuda.cuMemAlloc_v2(ctypes.byref(at), free))
print("more", cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(2 << 20)))
