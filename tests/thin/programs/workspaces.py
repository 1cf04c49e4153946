# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's libraries take of the device by themselves: how much less is free once a handle or a plan is there and has worked, and that all
of it comes back. Prints bytes; the driver counts them where the libraries run, the quota where they run for somebody."""

import ctypes
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_void_p

from device import Memory, check, cuda, start

start()
matrix = Memory(c_float, 64 * 64)
room = Memory(c_float, 2 * 100003)
refused = "refused" in sys.argv


def free_bytes():
    check(cuda.cuCtxSynchronize())
    free, total = c_size_t(), c_size_t()
    check(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    return free.value


def show(what, make, work, end):
    """make() gives a status and what `work` and `end` get. Once before: what loading a library takes for its variables stays."""
    if not refused:
        status, made = make()
        work(made), end(made)
    before = free_bytes()
    status, made = make()
    after_making = free_bytes()
    done = work(made) if status == 0 else None
    after_work = free_bytes()
    ended = end(made) if status == 0 else None
    print(
        what,
        status,
        done,
        ended,
        before - after_making,
        before - after_work,
        before - free_bytes(),
        flush=True,
    )


def handle(create):
    made = c_void_p()
    return create(byref(made)), made


blas, fft, solver = (
    ctypes.CDLL("libcublas.so.13"),
    ctypes.CDLL("libcufft.so.12"),
    ctypes.CDLL("libcusolver.so.12"),
)
one, size = c_float(1), 64


def product(blas_handle):
    return blas.cublasSgemm_v2(
        blas_handle,
        0,
        0,
        size,
        size,
        size,
        byref(one),
        matrix.address,
        size,
        matrix.address,
        size,
        byref(one),
        matrix.address,
        size,
    )


def plan(length):
    made = c_int()
    return fft.cufftPlan1d(byref(made), length, 0x29, 1), made


show("cublas", lambda: handle(blas.cublasCreate_v2), product, blas.cublasDestroy_v2)
for length in (1 << 16, 100003):  # the second is prime: its transform goes through longer ones
    show(
        f"cufft {length}",
        lambda: plan(length),
        lambda made: fft.cufftExecC2C(made, room.address, room.address, -1),
        fft.cufftDestroy,
    )
if not refused:
    show(
        "cusolver",
        lambda: handle(solver.cusolverDnCreate),
        lambda made: 0,
        solver.cusolverDnDestroy,
    )
    rand = ctypes.CDLL("libcurand.so.10")

    def generator():
        made = c_void_p()
        return rand.curandCreateGenerator(byref(made), 141), made  # MTGP32, whose states are memory

    show(
        "curand",
        generator,
        lambda made: rand.curandGenerateUniform(made, room.address, c_size_t(64)),
        rand.curandDestroyGenerator,
    )
