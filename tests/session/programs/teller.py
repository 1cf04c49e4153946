# SPDX-License-Identifier: Apache-2.0
"""Device memory by order: a line on stdin is `take BYTES`, `fill` or `drop` (the last taken; `drop N`: the Nth), `heap BYTES` or
`printf BYTES` (limits), `spin MILLISECONDS` (posts a kernel that takes so long), or `free`; a line on stdout answers."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def must(code):
    assert code == 0, code


SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds) {
  .reg .u64 %now, %end;
  .reg .pred %late;
  ld.param.u64 %end, [nanoseconds];
  mov.u64 %now, %globaltimer;
  add.u64 %end, %end, %now;
again:
  mov.u64 %now, %globaltimer;
  setp.ge.u64 %late, %now, %end;
  @!%late bra again;
  ret;
}
"""


def spin(milliseconds):
    module, kernel, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    must(cuda.cuModuleLoadData(ctypes.byref(module), SPIN))
    must(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
    must(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    nanoseconds = ctypes.c_uint64(milliseconds * 1_000_000)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(nanoseconds))
    must(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None))


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
        must(cuda.cuMemFree_v2(taken.pop(int(rest[0]) if rest else -1)))
        must(cuda.cuCtxSynchronize())
        print("dropped", flush=True)
    elif word == "spin":
        spin(int(rest[0]))
        print("spins", flush=True)
    elif word in ("heap", "printf"):
        print(
            "code",
            cuda.cuCtxSetLimit({"printf": 1, "heap": 2}[word], ctypes.c_size_t(int(rest[0]))),
            flush=True,
        )
    elif word == "free":
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        print("free", free.value, "of", total.value, flush=True)
