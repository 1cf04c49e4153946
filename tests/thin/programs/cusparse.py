# SPDX-License-Identifier: Apache-2.0
"""cuSPARSE: a sparse vector into a dense one (Axpby, Rot) in each type and pointer mode.

NVIDIA's csrcolor (CUDA 13.0) faults on the CPU device in some runs, so colouring is not here."""

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_int64, c_void_p

from device import Memory, new_stream, start

start()
sparse = ctypes.CDLL("libcusparse.so.12")
TYPES = {
    "R_32F": (0, c_float, 1),
    "R_64F": (1, c_double, 1),
    "C_32F": (4, c_float, 2),
    "C_64F": (5, c_double, 2),
}


def show(what, *results):
    print(what, *results, flush=True)


handle = c_void_p()
show("create", sparse.cusparseCreate(byref(handle)))
stream = new_stream()
show("stream", sparse.cusparseSetStream(handle, stream))
indices = Memory(c_int, 3, [0, 2, 4])
for name, (kind, element, parts) in TYPES.items():

    def flat(*numbers):
        return [part for number in numbers for part in ([number] if parts == 1 else [number, 1.0])]

    def scalar(value):
        return (element * parts)(*flat(value))

    x_memory, y_memory = (
        Memory(element, 3 * parts, flat(1, 2, 3)),
        Memory(element, 6 * parts, flat(10, 20, 30, 40, 50, 60)),
    )
    x, y = c_void_p(), c_void_p()
    show(
        name,
        "vectors",
        sparse.cusparseCreateSpVec(
            byref(x), c_int64(6), c_int64(3), indices.address, x_memory.address, 2, 0, kind
        ),
        sparse.cusparseCreateDnVec(byref(y), c_int64(6), y_memory.address, kind),
    )
    show(
        name,
        "axpby",
        sparse.cusparseAxpby(handle, scalar(2), x, scalar(1), y),
        y_memory.read(stream),
    )
    show(
        name,
        "rot",
        sparse.cusparseRot(handle, scalar(1), scalar(2), x, y),
        x_memory.read(stream),
        y_memory.read(stream),
    )
    alpha, beta = Memory(element, parts, flat(3)), Memory(element, parts, flat(-1))
    show(
        name,
        "device mode",
        sparse.cusparseSetPointerMode(handle, 1),
        sparse.cusparseAxpby(
            handle, c_void_p(alpha.address.value), x, c_void_p(beta.address.value), y
        ),
        y_memory.read(stream),
        sparse.cusparseSetPointerMode(handle, 0),
    )
    constant = c_void_p()
    show(
        name,
        "constant",
        sparse.cusparseCreateConstSpVec(
            byref(constant), c_int64(6), c_int64(3), indices.address, x_memory.address, 2, 0, kind
        ),
        sparse.cusparseAxpby(handle, scalar(1), constant, scalar(0), y),
        y_memory.read(stream),
        sparse.cusparseDestroySpVec(constant),
    )
    show(name, "end", sparse.cusparseDestroySpVec(x), sparse.cusparseDestroyDnVec(y))
show("end", sparse.cusparseDestroy(handle))
