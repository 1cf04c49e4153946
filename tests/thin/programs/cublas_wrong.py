# SPDX-License-Identifier: Apache-2.0
"""Calls that are wrong, of each library: sizes below zero, too large or beyond any number, enumerations that are none, objects of another kind.
What only the server finds is told by the handle's next call, so each shows the call's code or that of a call that is right after it."""

import ctypes
import os
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p

from device import Memory, check, cuda, start

# NVIDIA's libraries tell of arguments on the standard output, where they are: on the server, with ours.
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
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
MOST, HUGE = 2**31 - 1, 2**62


def made(create, *more):
    out = c_void_p()
    assert create(byref(out), *more) == 0
    return out


def show(library, what, status, harmless):
    check(cuda.cuCtxSynchronize())
    print(library, what, status or harmless(), file=out, flush=True)


a = Memory(c_float, 64, [float(i % 7) for i in range(64)])
one, x = c_float(1), a.address

# cuBLAS
handle = made(blas.cublasCreate_v2)
right = lambda: blas.cublasSscal_v2(handle, 4, byref(one), x, 1)  # noqa: E731
for m, n, k, lda, ldb, ldc in (
    (-1, 2, 2, 2, 2, 2),
    (2, -1, 2, 2, 2, 2),
    (2, 2, -7, 2, 2, 2),
    (4, 2, 2, 2, 2, 4),
    (4, 2, 2, 4, 1, 4),
    (4, 2, 2, 4, 2, 0),
    (MOST, 2, 2, 2, 2, 2),
    (2, 2, 2, -1, 2, 2),
):
    show(
        "cublas",
        f"sgemm {m} {n} {k} {lda} {ldb} {ldc}",
        blas.cublasSgemm_v2(handle, 0, 0, m, n, k, byref(one), x, lda, x, ldb, byref(one), x, ldc),
        right,
    )
for trans in (3, 9, -1):
    show(
        "cublas",
        f"sgemm as {trans}",
        blas.cublasSgemm_v2(handle, trans, 0, 2, 2, 2, byref(one), x, 2, x, 2, byref(one), x, 2),
        right,
    )
show(
    "cublas",
    "gemmEx of a type that is none",
    blas.cublasGemmEx(
        handle, 0, 0, 2, 2, 2, byref(one), x, 77, 2, x, 0, 2, byref(one), x, 0, 2, 68, -1
    ),
    right,
)
show(
    "cublas",
    "gemm 64 below zero",
    blas.cublasSgemm_v2_64(
        handle,
        0,
        0,
        c_int64(-HUGE),
        c_int64(2),
        c_int64(2),
        byref(one),
        x,
        c_int64(2),
        x,
        c_int64(2),
        byref(one),
        x,
        c_int64(2),
    ),
    right,
)
show(
    "cublas",
    "batched below zero",
    blas.cublasSgemmBatched(handle, 0, 0, 2, 2, 2, byref(one), x, 2, x, 2, byref(one), x, 2, -3),
    right,
)
for name, arguments in (
    ("cublasSetMathMode", (99,)),
    ("cublasSetPointerMode_v2", (9,)),
    ("cublasSetAtomicsMode", (9,)),
):
    show("cublas", f"{name} {arguments}", getattr(blas, name)(handle, *arguments), right)

# cuSOLVER
dense, info, size = made(solver.cusolverDnCreate), Memory(c_int, 4), c_int()
right = lambda: solver.cusolverDnSpotrf_bufferSize(dense, 0, 2, x, 2, byref(size))  # noqa: E731
for fill, n, lda in ((0, -1, 2), (0, 4, 2), (0, 4, -1), (9, 2, 2)):
    show(
        "cusolver",
        f"potrf {fill} {n} {lda}",
        solver.cusolverDnSpotrf_bufferSize(dense, fill, n, x, lda, byref(size)),
        right,
    )
    show(
        "cusolver",
        f"potrf {fill} {n} {lda}",
        solver.cusolverDnSpotrf(dense, fill, n, x, lda, x, 8, info.address),
        right,
    )
for m, n, lda in ((-1, 2, 2), (2, -1, 2), (4, 2, 2)):
    show(
        "cusolver",
        f"getrf {m} {n} {lda}",
        solver.cusolverDnSgetrf_bufferSize(dense, m, n, x, lda, byref(size)),
        right,
    )

# cuSPARSE
sparse_handle = made(sparse.cusparseCreate)
right = lambda: sparse.cusparseSetPointerMode(sparse_handle, 0)  # noqa: E731
for rows, columns, nonzeros in ((-1, 2, 2), (2, -1, 2), (2, 2, -1), (2, 2, 5), (HUGE, HUGE, 2)):
    matrix = c_void_p()
    status = sparse.cusparseCreateCsr(
        byref(matrix), c_int64(rows), c_int64(columns), c_int64(nonzeros), x, x, x, 2, 2, 0, 0
    )
    show(
        "cusparse",
        f"csr {rows} {columns} {nonzeros}",
        status or (sparse.cusparseDestroySpMat(matrix)),
        right,
    )
for rows, columns, apart, order in ((-1, 2, 2, 1), (4, 2, 2, 1), (4, 2, 2, 2), (2, 2, -1, 2)):
    show(
        "cusparse",
        f"dense {rows} {columns} {apart} {order}",
        sparse.cusparseCreateDnMat(
            byref(c_void_p()), c_int64(rows), c_int64(columns), c_int64(apart), x, 0, order
        ),
        right,
    )
for length, nonzeros in ((-1, 0), (4, -1), (2, 5), (4, 4)):
    show(
        "cusparse",
        f"vector {length} {nonzeros}",
        sparse.cusparseCreateSpVec(
            byref(c_void_p()), c_int64(length), c_int64(nonzeros), x, x, 2, 0, 0
        ),
        right,
    )
show(
    "cusparse",
    "dense vector",
    sparse.cusparseCreateDnVec(byref(c_void_p()), c_int64(-1), x, 0),
    right,
)
show("cusparse", "pointer mode", sparse.cusparseSetPointerMode(sparse_handle, 9), lambda: 0)

# cuFFT
for sizes in ((MOST, 1), (MOST, MOST), (8, -1), (8, 0), (1 << 27, 64)):
    plan = c_int(-1)
    show("cufft", f"1d {sizes}", fft.cufftPlan1d(byref(plan), sizes[0], 0x29, sizes[1]), lambda: 0)
for sizes in ((MOST, MOST), (1 << 20, 1 << 20), (-3, 4)):
    plan = c_int(-1)
    show("cufft", f"2d {sizes}", fft.cufftPlan2d(byref(plan), *sizes, 0x29), lambda: 0)

# cuRAND
for kind in (99, -1):
    show(
        "curand",
        f"generator {kind}",
        rand.curandCreateGenerator(byref(c_void_p()), kind),
        lambda: 0,
    )
random = made(rand.curandCreateGenerator, 101)
right = lambda: rand.curandGenerateUniform(random, x, c_size_t(8))  # noqa: E731
show(
    "curand",
    "normal of an odd count",
    rand.curandGenerateNormal(random, x, c_size_t(7), c_float(0), c_float(1)),
    right,
)
show("curand", "dimensions", rand.curandSetQuasiRandomGeneratorDimensions(random, 5), right)
show("curand", "order", rand.curandSetGeneratorOrdering(random, 7), right)

# cuDNN
tensor, conv = made(dnn.cudnnCreateTensorDescriptor), made(dnn.cudnnCreateConvolutionDescriptor)
for dims in ((-1, 1, 1, 1), (MOST, MOST, 1, 1), (1 << 16, 1 << 16, 1 << 16, 1 << 16), (0, 1, 1, 1)):
    show("cudnn", f"tensor {dims}", dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, *dims), lambda: 0)
show("cudnn", "no descriptor", dnn.cudnnSetFilter4dDescriptor(None, 0, 0, 1, 1, 1, 1), lambda: 0)
for groups in (-1, MOST):
    show("cudnn", f"groups {groups}", dnn.cudnnSetConvolutionGroupCount(conv, groups), lambda: 0)

# Memory of the host where the device's is wanted: the kernel meets it, and after that nothing of the context works.
host = (c_float * 64)()
h = c_void_p(ctypes.addressof(host))
for name, call in (
    (
        "sgemm",
        lambda: blas.cublasSgemm_v2(
            handle, 0, 0, 4, 4, 4, byref(one), h, 4, x, 4, byref(one), x, 4
        ),
    ),
    ("sscal", lambda: blas.cublasSscal_v2(handle, 4, byref(one), x, 1)),
):
    status, seen = call(), cuda.cuCtxSynchronize()
    print("cublas host memory", name, status or call(), seen, file=out, flush=True)
