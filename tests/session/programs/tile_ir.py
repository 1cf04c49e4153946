# SPDX-License-Identifier: Apache-2.0
"""Loads byte code of CUDA Tile, as a module and as a library; prints the codes."""

import ctypes

# A section of two bytes, and the end.
CODE = b"\x7fTileIR\0\x0d\x01\0\0\x02\x02ab\0"

cuda = ctypes.CDLL("libcuda.so.1")
context, handle = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
print(
    cuda.cuModuleLoadData(ctypes.byref(handle), CODE),
    cuda.cuLibraryLoadData(ctypes.byref(handle), CODE, None, None, 0, None, None, 0),
)
