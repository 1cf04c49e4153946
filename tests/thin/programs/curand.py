# SPDX-License-Identifier: Apache-2.0
"""cuRAND's host API: generators of each kind, seeds, offsets, orderings, every distribution, and calls that are wrong."""

import ctypes
from ctypes import c_double, c_float, c_size_t, c_uint, c_uint64, c_ulonglong

from device import Memory, new_stream, start

TYPES = {
    "xorwow": 101,
    "mrg32k3a": 121,
    "philox": 161,
    "mt19937": 142,
    "sobol32": 201,
    "scrambled32": 202,
    "sobol64": 203,
}
start()
curand = ctypes.CDLL("libcurand.so.10")


def create(kind):
    generator = ctypes.c_void_p()
    return curand.curandCreateGenerator(ctypes.byref(generator), kind), generator


def show(what, status, memory=None, stream=None):
    print(what, status, *(memory.read(stream) if memory else []))


# Each distribution, from the same seed twice and from an offset.
for name, kind in TYPES.items():
    status, generator = create(kind)
    show(f"{name} create", status)
    quasi, wide = kind >= 200, kind == 203
    if not quasi:
        show(
            f"{name} seed", curand.curandSetPseudoRandomGeneratorSeed(generator, c_ulonglong(1234))
        )
    elif kind != 201:
        show(f"{name} dimensions", curand.curandSetQuasiRandomGeneratorDimensions(generator, 4))
    calls = [
        ("Uniform", c_float, ()),
        ("UniformDouble", c_double, ()),
        ("Normal", c_float, (c_float(1), c_float(2))),
        ("NormalDouble", c_double, (c_double(1), c_double(2))),
        ("LogNormal", c_float, (c_float(0), c_float(0.5))),
        ("LogNormalDouble", c_double, (c_double(0), c_double(0.5))),
    ]
    calls.append(("LongLong", c_uint64, ()) if wide else ("", c_uint, ()))
    if not wide:
        calls.append(("Poisson", c_uint, (c_double(3.5),)))
    for suffix, element, values in calls:
        memory = Memory(element, 16)
        show(
            f"{name} Generate{suffix}",
            getattr(curand, "curandGenerate" + suffix)(
                generator, memory.address, c_size_t(16), *values
            ),
            memory,
        )
    show(f"{name} destroy", curand.curandDestroyGenerator(generator))

# Setting the seed again begins the sequence anew; an offset moves in it; a stream is another queue, not another sequence.
_, generator = create(161)
memory = Memory(c_uint, 8)
for step in (
    lambda: curand.curandSetPseudoRandomGeneratorSeed(generator, c_ulonglong(7)),
    lambda: curand.curandSetPseudoRandomGeneratorSeed(generator, c_ulonglong(7)),
    lambda: curand.curandSetGeneratorOffset(generator, c_ulonglong(1000)),
    lambda: curand.curandSetGeneratorOrdering(generator, 102),
):
    show("set", step())
    show("again", curand.curandGenerate(generator, memory.address, c_size_t(8)), memory)
    show("goes on", curand.curandGenerate(generator, memory.address, c_size_t(8)), memory)
stream = new_stream()
show("stream", curand.curandSetStream(generator, stream))
show("on a stream", curand.curandGenerate(generator, memory.address, c_size_t(8)), memory, stream)

# What each generator takes.
for kind in (100, 101, 121, 141, 142, 161, 200, 201, 202, 203, 204):
    _, generator = create(kind)
    for order in (99, 100, 101, 102, 103, 104, 105, 200, 201, 202):
        show(f"type {kind} ordering {order}", curand.curandSetGeneratorOrdering(generator, order))
    show(f"type {kind} offset", curand.curandSetGeneratorOffset(generator, c_ulonglong(5)))
    show(f"type {kind} seed", curand.curandSetPseudoRandomGeneratorSeed(generator, c_ulonglong(5)))
    for dimensions in (0, 1, 20000, 20001):
        show(
            f"type {kind} dimensions {dimensions}",
            curand.curandSetQuasiRandomGeneratorDimensions(generator, dimensions),
        )

# On the host: the same distributions into memory of this process, one longer than a record.
for name, kind in TYPES.items():
    generator = ctypes.c_void_p()
    show(f"host {name} create", curand.curandCreateGeneratorHost(ctypes.byref(generator), kind))
    if kind < 200:
        show("seed", curand.curandSetPseudoRandomGeneratorSeed(generator, c_ulonglong(99)))
    for suffix, element, values in (
        ("Uniform", c_float, ()),
        ("NormalDouble", c_double, (c_double(1), c_double(2))),
    ):
        host = (element * 8)()
        show(
            f"host {name} {suffix}",
            getattr(curand, "curandGenerate" + suffix)(generator, host, c_size_t(8), *values),
        )
        print([round(value, 4) for value in host])
    if kind in (101, 161):
        host = (c_float * 100000)()
        show(f"host {name} many", curand.curandGenerateUniform(generator, host, c_size_t(100000)))
        print(list(host[::9973]))
    show("destroy", curand.curandDestroyGenerator(generator))
_, generator = create(161)
memory = Memory(c_uint, 16)
show(
    "poisson by a method",
    curand.curandGeneratePoissonMethod(generator, memory.address, c_size_t(16), c_double(3.5), 9),
    memory,
)

# Tables, and a distribution, which is the device's.
for kind in (101, 102, 103, 104):
    wide = kind > 102
    row = (c_uint64 if wide else c_uint) * (64 if wide else 32)
    vectors = ctypes.POINTER(row)()
    name = "curandGetDirectionVectors" + ("64" if wide else "32")
    show(f"vectors {kind}", getattr(curand, name)(ctypes.byref(vectors), kind))
    print(list(vectors[0]), list(vectors[1])[:8], list(vectors[19999]))
    show(
        "of the other size",
        getattr(curand, name)(ctypes.byref(ctypes.POINTER(row)()), 205 - kind if not wide else 101),
    )
for bits, element in ((32, c_uint), (64, c_uint64)):
    constants = ctypes.POINTER(element)()
    show("constants", getattr(curand, f"curandGetScrambleConstants{bits}")(ctypes.byref(constants)))
    print(constants[0], constants[1], constants[19999])
distribution = ctypes.c_void_p()
show(
    "distribution",
    curand.curandCreatePoissonDistribution(c_double(3.5), ctypes.byref(distribution)),
)
print(bool(distribution.value))
show("destroy", curand.curandDestroyDistribution(distribution))
for wrong in (0, -1, 1e9):
    show(
        f"distribution of {wrong}",
        curand.curandCreatePoissonDistribution(c_double(wrong), ctypes.byref(ctypes.c_void_p())),
    )
show(
    "a host type that is none",
    curand.curandCreateGeneratorHost(ctypes.byref(ctypes.c_void_p()), 99),
)

# Calls that are wrong.
show("a type that is none", create(99)[0])
show("a quasi type that is none", create(205)[0])
_, pseudo = create(101)
_, sobol = create(201)
_, sobol64 = create(203)
memory = Memory(c_uint64, 16)
show("a seed for Sobol", curand.curandSetPseudoRandomGeneratorSeed(sobol, c_ulonglong(1)))
show("dimensions for XORWOW", curand.curandSetQuasiRandomGeneratorDimensions(pseudo, 2))
show("no dimensions", curand.curandSetQuasiRandomGeneratorDimensions(sobol, 0))
show("too many dimensions", curand.curandSetQuasiRandomGeneratorDimensions(sobol, 20001))
show("dimensions", curand.curandSetQuasiRandomGeneratorDimensions(sobol, 3))
show("a length of no whole rows", curand.curandGenerateUniform(sobol, memory.address, c_size_t(16)))
show(
    "an odd length of normals",
    curand.curandGenerateNormal(pseudo, memory.address, c_size_t(5), c_float(0), c_float(1)),
)
show("an odd length of uniforms", curand.curandGenerateUniform(pseudo, memory.address, c_size_t(5)))
show("64 bits from XORWOW", curand.curandGenerateLongLong(pseudo, memory.address, c_size_t(4)))
show("64 bits from Sobol 32", curand.curandGenerateLongLong(sobol, memory.address, c_size_t(3)))
show("32 bits from Sobol 64", curand.curandGenerate(sobol64, memory.address, c_size_t(4)))
show("an ordering that is none", curand.curandSetGeneratorOrdering(pseudo, 99))
show("another's ordering", curand.curandSetGeneratorOrdering(pseudo, 201))
show("another's ordering", curand.curandSetGeneratorOrdering(sobol, 101))
show("lambda 0", curand.curandGeneratePoisson(pseudo, memory.address, c_size_t(4), c_double(0)))
show(
    "lambda too large",
    curand.curandGeneratePoisson(pseudo, memory.address, c_size_t(4), c_double(400001)),
)
show("null", curand.curandGenerate(None, memory.address, c_size_t(4)))
show("destroy null", curand.curandDestroyGenerator(None))
version = ctypes.c_int()
show("version", curand.curandGetVersion(ctypes.byref(version)))
print(version.value)
for part in range(4):
    show("property", curand.curandGetProperty(part, ctypes.byref(version)))
    print(version.value)
