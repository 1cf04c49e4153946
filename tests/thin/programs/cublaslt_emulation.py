# SPDX-License-Identifier: Apache-2.0
"""cuBLASLt's emulation descriptors: their attributes there and back, in a matmul descriptor, and what the heuristics say with them. What a matmul
descriptor holds is the address: what is set after that counts as well."""

import ctypes
from ctypes import byref, c_ubyte, c_int, c_int64, c_size_t, c_uint64, c_void_p

from device import start

start()
lt = ctypes.CDLL("libcublasLt.so.13")
EMULATION, WORKSPACE = 38, 1


def made(create, *more):
    it = c_void_p()
    assert create(byref(it), *more) == 0
    return it


def read(descriptor, attribute, size):
    value, written = c_uint64(0), c_size_t(77)
    return (
        lt.cublasLtEmulationDescGetAttribute(
            descriptor, attribute, byref(value), c_size_t(size), byref(written)
        ),
        value.value,
        written.value,
    )


emulation = made(lt.cublasLtEmulationDescCreate)
for attribute in range(8):
    print(attribute, [read(emulation, attribute, size) for size in (0, 4, 8, 16)])
    for value in (0, 1, 9, -1):
        statuses = [
            lt.cublasLtEmulationDescSetAttribute(
                emulation, attribute, byref(c_int64(value)), c_size_t(size)
            )
            for size in (2, 4, 8)
        ]
        print(" ", value, statuses, [read(emulation, attribute, size) for size in (4, 8)])
print(
    "sizes",
    lt.cublasLtEmulationDescInit_internal(emulation, c_size_t(64)),
    lt.cublasLtEmulationDescInit_internal(emulation, c_size_t(8)),
    read(emulation, 1, 4),
)
print(
    "null",
    lt.cublasLtEmulationDescSetAttribute(None, 0, byref(c_int()), c_size_t(4)),
    lt.cublasLtEmulationDescSetAttribute(emulation, 0, None, c_size_t(4)),
    lt.cublasLtEmulationDescCreate(None),
    lt.cublasLtEmulationDescDestroy(None),
)

handle, preference = made(lt.cublasLtCreate), made(lt.cublasLtMatmulPreferenceCreate)
assert (
    lt.cublasLtMatmulPreferenceSetAttribute(
        preference, WORKSPACE, byref(c_uint64(1 << 25)), c_size_t(8)
    )
    == 0
)


def heuristics(operation, kind):
    layout = made(lt.cublasLtMatrixLayoutCreate, kind, c_uint64(256), c_uint64(256), c_int64(256))
    results, found = (c_ubyte * 8192)(), c_int(-1)
    status = lt.cublasLtMatmulAlgoGetHeuristic(
        handle, operation, layout, layout, layout, layout, preference, 4, results, byref(found)
    )
    return (
        status,
        found.value,
        [bytes(results[144 * i : 144 * i + 64]).hex() for i in range(max(found.value, 0))],
    )


for compute, kind in ((68, 0), (70, 1), (78, 0), (79, 0)):
    operation, held = c_void_p(), c_void_p(5)
    print("compute", compute, lt.cublasLtMatmulDescCreate(byref(operation), compute, kind))
    print(
        "  none",
        lt.cublasLtMatmulDescGetAttribute(operation, EMULATION, byref(held), c_size_t(8), None),
        held.value,
        heuristics(operation, kind),
    )
    print(
        "  held",
        lt.cublasLtMatmulDescSetAttribute(operation, EMULATION, byref(emulation), c_size_t(8)),
        lt.cublasLtMatmulDescGetAttribute(operation, EMULATION, byref(held), c_size_t(8), None),
        held.value == emulation.value,
    )
    for strategy in (0, 1, 2):
        for control, bits in ((0, 0), (1, 55)):
            for attribute, value in ((0, strategy), (2, control), (3, bits)):
                assert (
                    lt.cublasLtEmulationDescSetAttribute(
                        emulation, attribute, byref(c_int(value)), c_size_t(4)
                    )
                    == 0
                )
            print("  strategy", strategy, control, bits, heuristics(operation, kind))
    print(
        "  let go",
        lt.cublasLtMatmulDescSetAttribute(operation, EMULATION, byref(c_void_p()), c_size_t(8)),
        heuristics(operation, kind),
    )
print("end", lt.cublasLtEmulationDescDestroy(emulation), lt.cublasLtDestroy(handle))
