# SPDX-License-Identifier: Apache-2.0
"""cuFFT on one device: each type of transform against a sum on the host, plans of every kind, work areas, streams, and calls that are wrong."""

import cmath
import ctypes
from ctypes import c_double, c_float, c_int, c_longlong, c_size_t, c_uint64

from device import Memory, new_stream, start

C2C, R2C, C2R, Z2Z, D2Z, Z2D = 0x29, 0x2A, 0x2C, 0x69, 0x6A, 0x6C
start()
cufft = ctypes.CDLL("libcufft.so.12")


def show(what, *results):
    print(what, *results)


def ints(*values, kind=c_int):
    return (kind * len(values))(*values)


def dft(values, sign=-1):
    count = len(values)
    return [
        sum(
            value * cmath.exp(sign * 2j * cmath.pi * k * i / count)
            for i, value in enumerate(values)
        )
        for k in range(count)
    ]


def pairs(numbers):
    return [complex(a, b) for a, b in zip(numbers[::2], numbers[1::2])]


def flat(values):
    return [part for value in values for part in (value.real, value.imag)]


def close(got, want, limit):
    worst = max(abs(a - b) for a, b in zip(got, want, strict=True))
    assert worst < limit, f"differs from the host's by {worst}"
    return "as on the host"


def plan1d(size, kind, batch=1):
    plan = c_int()
    status = cufft.cufftPlan1d(ctypes.byref(plan), size, kind, batch)
    return status, plan


# Every type in one dimension, there and back.
for kind, name, element in ((C2C, "C2C", c_float), (Z2Z, "Z2Z", c_double)):
    for size in (8, 12, 17, 30):
        signal = [complex(i % 5 - 2, (3 * i) % 7 - 3) for i in range(2 * size)]
        status, plan = plan1d(size, kind, 2)
        source, target = Memory(element, 4 * size, flat(signal)), Memory(element, 4 * size)
        ran = getattr(cufft, "cufftExec" + name)(plan, source.address, target.address, -1)
        found = target.read()
        limit = 1e-3 if element is c_float else 1e-9
        show(
            name,
            size,
            status,
            ran,
            close(pairs(found), dft(signal[:size]) + dft(signal[size:]), limit),
            found,
        )
        ran = getattr(cufft, "cufftExec" + name)(plan, target.address, source.address, 1)
        show(
            "back",
            ran,
            close([v / size for v in pairs(source.read())], signal, limit),
            cufft.cufftDestroy(plan),
        )
for forth, back, first, second, element in (
    (R2C, C2R, "R2C", "C2R", c_float),
    (D2Z, Z2D, "D2Z", "Z2D", c_double),
):
    size = 16
    signal = [float((i * 7) % 11 - 5) for i in range(size)]
    (status, plan), (also, inverse) = plan1d(size, forth), plan1d(size, back)
    source, target, home = (
        Memory(element, size, signal),
        Memory(element, size + 2),
        Memory(element, size),
    )
    ran = getattr(cufft, "cufftExec" + first)(plan, source.address, target.address)
    show(
        first,
        status,
        ran,
        close(pairs(target.read()), dft(signal)[: size // 2 + 1], 1e-3),
        target.read(),
    )
    ran = getattr(cufft, "cufftExec" + second)(inverse, target.address, home.address)
    show(second, also, ran, close([v / size for v in home.read()], signal, 1e-3))

# Two and three dimensions, layouts, 64-bit sizes, types by name: plans by each call.
signal = [complex(i % 13 - 6, i % 3) for i in range(64)]
source, target, size = Memory(c_float, 128, flat(signal)), Memory(c_float, 128), c_size_t()
plan = c_int()
show(
    "2d",
    cufft.cufftPlan2d(ctypes.byref(plan), 8, 8, C2C),
    cufft.cufftExecC2C(plan, source.address, target.address, -1),
    target.read(),
)
rows = [dft(signal[8 * i : 8 * i + 8]) for i in range(8)]
columns = [dft([row[k] for row in rows]) for k in range(8)]
show("2d", close(pairs(target.read()), [columns[k][i] for i in range(8) for k in range(8)], 1e-3))
show(
    "3d",
    cufft.cufftPlan3d(ctypes.byref(plan), 4, 4, 4, C2C),
    cufft.cufftExecC2C(plan, source.address, target.address, -1),
    target.read(),
)
show(
    "many",
    cufft.cufftPlanMany(ctypes.byref(plan), 1, ints(8), ints(8), 8, 1, ints(8), 1, 8, C2C, 8),
    cufft.cufftExecC2C(plan, source.address, target.address, -1),
    target.read(),
)
for call, numbers in ((cufft.cufftMakePlanMany, c_int), (cufft.cufftMakePlanMany64, c_longlong)):
    show("create", cufft.cufftCreate(ctypes.byref(plan)))
    wide = numbers
    show(
        "make",
        call(
            plan,
            2,
            ints(8, 8, kind=numbers),
            None,
            wide(1),
            wide(64),
            None,
            wide(1),
            wide(64),
            C2C,
            wide(1),
            ctypes.byref(size),
        ),
        size.value,
        cufft.cufftExecC2C(plan, source.address, target.address, 1),
        target.read(),
    )
show("create", cufft.cufftCreate(ctypes.byref(plan)))
wide = c_longlong
show(
    "Xt",
    cufft.cufftXtMakePlanMany(
        plan,
        1,
        ints(64, kind=wide),
        None,
        wide(1),
        wide(64),
        4,
        None,
        wide(1),
        wide(64),
        4,
        wide(1),
        ctypes.byref(size),
        4,
    ),
    size.value,
    cufft.cufftXtExec(plan, source.address, target.address, -1),
    target.read(),
)

# A work area of the caller's, a stream, sizes and estimates.
show("create", cufft.cufftCreate(ctypes.byref(plan)), cufft.cufftSetAutoAllocation(plan, 0))
show("make", cufft.cufftMakePlan1d(plan, 17, C2C, 3, ctypes.byref(size)), size.value)
area, stream = Memory(c_uint64, max(1, size.value)), new_stream()
show("area", cufft.cufftSetWorkArea(plan, area.address), cufft.cufftSetStream(plan, stream))
show("run", cufft.cufftExecC2C(plan, source.address, target.address, -1), target.read(stream))
show("size", cufft.cufftGetSize(plan, ctypes.byref(size)), size.value)
show("size", cufft.cufftGetSize1d(plan, 17, C2C, 3, ctypes.byref(size)), size.value)
for sizes, estimate in (((17,), "1d"), ((8, 9), "2d"), ((4, 5, 6), "3d")):
    last = (3,) if estimate == "1d" else ()
    for _ in range(2):
        show(
            "estimate",
            getattr(cufft, "cufftEstimate" + estimate)(*sizes, C2C, *last, ctypes.byref(size)),
            size.value,
        )
show("destroy", cufft.cufftDestroy(plan))

# Calls that are wrong.
show(
    "a plan that is gone",
    cufft.cufftExecC2C(plan, source.address, target.address, -1),
    cufft.cufftDestroy(plan),
    cufft.cufftSetStream(plan, None),
)
for number in (0, -1, 9999):
    show(
        "no plan",
        cufft.cufftExecC2C(number, source.address, target.address, -1),
        cufft.cufftGetSize(number, ctypes.byref(size)),
    )
for n, kind in ((0, C2C), (-4, C2C), (8, 99)):
    plan = c_int(-7)
    show("a plan that cannot be", n, kind, cufft.cufftPlan1d(ctypes.byref(plan), n, kind, 1))
show("create", cufft.cufftCreate(ctypes.byref(plan)))
show(
    "rank",
    cufft.cufftMakePlanMany(
        plan, 4, ints(2, 2, 2, 2), None, 1, 1, None, 1, 1, C2C, 1, ctypes.byref(size)
    ),
)
show(
    "made twice",
    cufft.cufftMakePlan1d(plan, 8, C2C, 1, ctypes.byref(size)),
    cufft.cufftMakePlan1d(plan, 8, C2C, 1, ctypes.byref(size)),
)
version = c_int()
show("version", cufft.cufftGetVersion(ctypes.byref(version)), version.value)
for part in range(3):
    show("property", cufft.cufftGetProperty(part, ctypes.byref(version)), version.value)


# What cuFFT has for several devices and for callbacks, as far as one device goes.
def made(size=64):
    return plan1d(size, C2C)[1]


def bare():
    plan = c_int()
    cufft.cufftCreate(ctypes.byref(plan))
    return plan


class Factors(ctypes.Structure):
    _fields_ = [("wide", c_longlong * 10), ("shifts", c_int * 4)]


for where in (bare, made):
    show(
        where.__name__,
        "devices",
        [
            cufft.cufftXtSetGPUs(where(), count, ints(device))
            for count, device in ((1, 0), (0, 0), (-1, 0), (1, 5), (1, -1))
        ],
        cufft.cufftXtSetGPUs(where(), 1, None),
    )
    plan = where()
    for policy in (0, 0, 1, 2, 7):
        size = c_size_t(1 << 20)
        show(
            where.__name__,
            "policy",
            policy,
            cufft.cufftXtSetWorkAreaPolicy(plan, policy, ctypes.byref(size)),
            size.value,
        )
    show(where.__name__, "policy", cufft.cufftXtSetWorkAreaPolicy(plan, 0, None))
    show(
        where.__name__,
        "areas",
        cufft.cufftXtSetWorkArea(plan, (ctypes.c_void_p * 1)(0)),
        cufft.cufftXtSetWorkArea(plan, None),
    )
    factors = Factors()
    show(
        where.__name__,
        "factors",
        [cufft.cufftXtQueryPlan(plan, ctypes.byref(factors), kind) for kind in (0, 1)],
        list(factors.wide),
        cufft.cufftXtQueryPlan(plan, None, 0),
    )
    for kind in (0, 3, 8, -1):
        plan = where()
        show(
            where.__name__,
            "callback",
            kind,
            cufft.cufftXtSetCallback(plan, (ctypes.c_void_p * 1)(4096), kind, None),
            cufft.cufftXtSetCallback(plan, None, kind, None),
            cufft.cufftXtClearCallback(plan, kind),
            cufft.cufftXtSetCallbackSharedSize(plan, kind, c_size_t(16)),
        )
        show(
            where.__name__,
            "compiled callback",
            kind,
            [
                cufft.cufftXtSetJITCallback(plan, *what, kind, None)
                for what in (
                    (b"load", b"abcd", c_size_t(4)),
                    (None, b"abcd", c_size_t(4)),
                    (b"load", None, c_size_t(4)),
                    (b"load", b"abcd", c_size_t(0)),
                )
            ],
        )
plan = bare()
show(
    "code that is none",
    cufft.cufftXtSetJITCallback(plan, b"load", b"abcd", c_size_t(4), 0, (ctypes.c_void_p * 1)(0)),
    cufft.cufftMakePlan1d(plan, 64, C2C, 1, ctypes.byref(size)),
)
show(
    "no plan",
    cufft.cufftXtSetGPUs(9999, 1, ints(0)),
    cufft.cufftXtSetWorkAreaPolicy(9999, 0, ctypes.byref(size)),
    cufft.cufftXtSetWorkArea(9999, (ctypes.c_void_p * 1)(0)),
    cufft.cufftXtQueryPlan(9999, ctypes.byref(Factors()), 0),
    cufft.cufftXtSetJITCallback(9999, b"load", b"abcd", c_size_t(4), 0, None),
)
