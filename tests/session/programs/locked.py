# SPDX-License-Identifier: Apache-2.0
"""Maps 8 MiB of host memory after 8 MiB for the device until that fails; then gives one back and tries again. Prints codes."""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0


def lock():
    host, device = ctypes.c_void_p(), ctypes.c_uint64()
    code = cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(8 << 20), 2)
    code = code or cuda.cuMemHostGetDevicePointer_v2(ctypes.byref(device), host, 0)
    return code, host


held = []
while len(held) < 100:
    code, host = lock()
    if code != 0:
        break
    held.append(host)
print("locked", len(held), "then", code)
assert cuda.cuMemFreeHost(held.pop()) == 0
print("again", lock()[0])
