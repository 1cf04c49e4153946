# SPDX-License-Identifier: Apache-2.0
"""Device memory by order: a line on stdin is `take BYTES`, `fill` or `drop` (the last taken), `heap BYTES` or `printf BYTES` (limits), or `free`; a line on stdout answers."""
import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def must(code):
    assert code == 0, code


context = ctypes.c_void_p()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
taken = []
print("ready", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "take":
        address = ctypes.c_uint64()
        code = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(int(rest[0])))
        if code == 0:
            taken.append(address)
            size = int(rest[0])
        print("code", code, flush=True)
    elif word == "fill":
        code = cuda.cuMemsetD8_v2(taken[-1], 1, ctypes.c_size_t(size))
        print("code", code or cuda.cuCtxSynchronize(), flush=True)
    elif word == "drop":
        must(cuda.cuMemFree_v2(taken.pop()))
        must(cuda.cuCtxSynchronize())
        print("dropped", flush=True)
    elif word in ("heap", "printf"):
        print("code", cuda.cuCtxSetLimit({"printf": 1, "heap": 2}[word], ctypes.c_size_t(int(rest[0]))), flush=True)
    elif word == "free":
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        print("free", free.value, "of", total.value, flush=True)
