# SPDX-License-Identifier: Apache-2.0
"""One process of a test: cuBLAS by ctypes on whatever LD_LIBRARY_PATH gives; prints its results as JSON."""

import ctypes
import json
import struct
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

cuda = ctypes.CDLL("libcuda.so.1")
blas = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libcublas.so.13")


def cu(status):
    assert status == 0, status


cu(cuda.cuInit(0))
context = c_void_p()
cu(cuda.cuDevicePrimaryCtxRetain(byref(context), 0))
cu(cuda.cuCtxSetCurrent(context))


def upload(values, code="f"):
    data = struct.pack(f"{len(values)}{code}", *values)
    address = c_uint64()
    cu(cuda.cuMemAlloc_v2(byref(address), c_size_t(max(len(data), 4))))
    cu(cuda.cuMemcpyHtoD_v2(address, data, c_size_t(len(data))))
    return c_void_p(address.value)


def download(address, count, code="f"):
    size = struct.calcsize(f"{count}{code}")
    data = ctypes.create_string_buffer(size)
    cu(cuda.cuMemcpyDtoH_v2(data, c_uint64(address.value), c_size_t(size)))
    return list(struct.unpack(f"{count}{code}", data.raw))


out = {}
handle = c_void_p()
out["create"] = blas.cublasCreate_v2(byref(handle))
m = n = k = 4
a = [float(i % 7) - 3 for i in range(16)]
b = [float(i % 5) for i in range(16)]
A, B, C = upload(a), upload(b), upload([1.0] * 16)
alpha, beta = c_float(2), c_float(0.5)
out["sgemm"] = blas.cublasSgemm_v2(
    handle, 0, 0, m, n, k, byref(alpha), A, m, B, k, byref(beta), C, m
)
out["C"] = download(C, 16)
x, y = upload([1.0, 2.0, 3.0]), upload([4.0, 5.0, 6.0])
result = c_float(0)
out["sdot"] = blas.cublasSdot_v2(handle, 3, x, 1, y, 1, byref(result))
out["dot"] = result.value
index = c_int(0)
out["isamax"] = blas.cublasIsamax_v2(handle, 3, x, 1, byref(index))
out["amax"] = index.value
out["mode"] = blas.cublasSetPointerMode_v2(handle, 1)
room, two = upload([0.0]), upload([2.0])
out["sdot_device"] = blas.cublasSdot_v2(handle, 3, x, 1, y, 1, room)
out["saxpy_device"] = blas.cublasSaxpy_v2(handle, 3, two, x, 1, y, 1)
out["dot_device"] = download(room, 1)
out["y"] = download(y, 3)
blas.cublasSetPointerMode_v2(handle, 0)
stream = c_void_p()
cu(cuda.cuStreamCreate(byref(stream), 1))
out["stream"] = blas.cublasSetStream_v2(handle, stream)
out["math"] = blas.cublasSetMathMode(handle, 3)
workspace = c_uint64()
cu(cuda.cuMemAlloc_v2(byref(workspace), c_size_t(1 << 22)))
out["workspace"] = blas.cublasSetWorkspace_v2(handle, c_void_p(workspace.value), c_size_t(1 << 22))
out["sgemm2"] = blas.cublasSgemm_v2(
    handle, 1, 0, m, n, k, byref(alpha), A, m, B, k, byref(beta), C, m
)
cu(cuda.cuStreamSynchronize(stream))
out["C2"] = download(C, 16)
out["null"] = blas.cublasSgemm_v2(None, 1, 0, m, n, k, byref(alpha), A, m, B, k, byref(beta), C, m)
out["bad"] = blas.cublasSgemm_v2(handle, 1, 0, m, n, k, byref(alpha), A, 1, B, k, byref(beta), C, m)
out["after"] = blas.cublasSgemm_v2(
    handle, 1, 0, m, n, k, byref(alpha), A, m, B, k, byref(beta), C, m
)
out["version"] = 0
version = c_int()
blas.cublasGetVersion_v2(handle, byref(version))
out["version"] = version.value
cu(cuda.cuCtxSynchronize())
out["destroy"] = blas.cublasDestroy_v2(handle)
print(json.dumps(out))
