# SPDX-License-Identifier: Apache-2.0
"""Handles of each library whose stream was destroyed: they are asked, given another stream, used there, and destroyed, as after the stream's end."""

import ctypes
from ctypes import byref, c_float, c_int, c_void_p

from device import Memory, check, cuda, new_stream, start

start()
blas, solver, sparse = (
    ctypes.CDLL("libcublas.so.13"),
    ctypes.CDLL("libcusolver.so.12"),
    ctypes.CDLL("libcusparse.so.12"),
)
fft, rand, dnn = (
    ctypes.CDLL("libcufft.so.12"),
    ctypes.CDLL("libcurand.so.10"),
    ctypes.CDLL("libcudnn.so.9"),
)
x = Memory(c_float, 64, [1.0] * 64)
one = c_float(2)


def plan():
    handle = c_int()
    return fft.cufftPlan1d(byref(handle), 16, 0x29, 1), handle


def generator():
    handle = c_void_p()
    return rand.curandCreateGenerator(byref(handle), 100), handle


def of(create):
    handle = c_void_p()
    return create(byref(handle)), handle


LIBRARIES = {
    "cublas": (
        lambda: of(blas.cublasCreate_v2),
        blas.cublasSetStream_v2,
        blas.cublasDestroy_v2,
        lambda handle: blas.cublasSscal_v2(handle, 4, byref(one), x.address, 1),
    ),
    "cusolver": (
        lambda: of(solver.cusolverDnCreate),
        solver.cusolverDnSetStream,
        solver.cusolverDnDestroy,
        None,
    ),
    "cusolver sparse": (
        lambda: of(solver.cusolverSpCreate),
        solver.cusolverSpSetStream,
        solver.cusolverSpDestroy,
        None,
    ),
    "cusparse": (
        lambda: of(sparse.cusparseCreate),
        sparse.cusparseSetStream,
        sparse.cusparseDestroy,
        None,
    ),
    "cufft": (plan, fft.cufftSetStream, fft.cufftDestroy, None),
    "curand": (
        generator,
        rand.curandSetStream,
        rand.curandDestroyGenerator,
        lambda handle: rand.curandGenerateUniform(handle, x.address, 64),
    ),
    "cudnn": (lambda: of(dnn.cudnnCreate), dnn.cudnnSetStream, dnn.cudnnDestroy, None),
}
for name, (make, set_stream, destroy, use) in LIBRARIES.items():
    made, handle = make()
    stream = new_stream()
    print(
        name,
        "made",
        made,
        "told",
        set_stream(handle, stream),
        "used",
        use(handle) if use else "-",
        flush=True,
    )
    check(cuda.cuStreamSynchronize(stream))
    check(cuda.cuStreamDestroy_v2(stream))
    print(name, "destroyed", destroy(handle), flush=True)

    made, handle = make()
    stream = new_stream()
    print(name, "made", made, "told", set_stream(handle, stream), flush=True)
    check(cuda.cuStreamDestroy_v2(stream))
    print(
        name,
        "told of none",
        set_stream(handle, c_void_p()),
        "used",
        use(handle) if use else "-",
        flush=True,
    )
    check(cuda.cuCtxSynchronize())
    print(name, "destroyed", destroy(handle), flush=True)
check(cuda.cuCtxSynchronize())
print(len(x.read()))
