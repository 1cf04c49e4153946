# SPDX-License-Identifier: Apache-2.0
"""Loads a library of two kernels before there is a context, finds one of them before (`early`) or
after, and launches it."""

import ctypes
import sys

PTX = b"""
.version 7.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry store(.param .u64 to, .param .u32 what) {
  .reg .b64 %d<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %d1, [to];
  ld.param.u32 %r1, [what];
  cvta.to.global.u64 %d2, %d1;
  st.global.u32 [%d2], %r1;
  ret;
}
"""

cuda = ctypes.CDLL("libcuda.so.1")
context, library, kernel, function = (ctypes.c_void_p() for _ in range(4))
address, word = ctypes.c_uint64(), ctypes.c_uint32()


def must(code):
    assert code == 0, code


def find():
    must(cuda.cuLibraryGetKernel(ctypes.byref(kernel), library, b"store"))


must(cuda.cuInit(0))
must(cuda.cuLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0))
if sys.argv[1] == "early":
    find()
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
if sys.argv[1] != "early":
    find()
must(cuda.cuKernelGetFunction(ctypes.byref(function), kernel))
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4)))
to, what = ctypes.c_uint64(address.value), ctypes.c_uint32(42)
values = (ctypes.c_void_p * 2)(
    *(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in (to, what))
)
must(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, values, None))
must(cuda.cuMemcpyDtoH_v2(ctypes.byref(word), address, ctypes.c_size_t(4)))
print(word.value)
