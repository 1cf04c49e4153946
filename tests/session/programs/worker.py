# SPDX-License-Identifier: Apache-2.0
"""worker.py MEBIBYTES: takes that much device memory, prints `works`, and writes to it until it is ended."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")
size = ctypes.c_size_t(int(sys.argv[1]) << 20)


def must(code):
    assert code == 0, code


context, address = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(address), size))
print("works", flush=True)
while True:
    must(cuda.cuMemsetD8_v2(address, 1, size))
    must(cuda.cuCtxSynchronize())
