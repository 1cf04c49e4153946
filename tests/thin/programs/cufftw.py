# SPDX-License-Identifier: Apache-2.0
"""FFTW's interface over cuFFT: plans over host memory of every form, in both precisions, in place and not, with rows that have gaps, run again and on
other arrays."""

import cmath
import ctypes
from ctypes import c_double, c_float, c_int, c_ssize_t, c_uint, c_void_p

FORWARD, BACKWARD, ESTIMATE = -1, 1, 1
fftw = ctypes.CDLL("libcufftw.so.12")


class Dim(ctypes.Structure):
    _fields_ = [("n", c_int), ("is_", c_int), ("os", c_int)]


class Dim64(ctypes.Structure):
    _fields_ = [("n", c_ssize_t), ("is_", c_ssize_t), ("os", c_ssize_t)]


def show(what, *results):
    print(what, *results)


def ints(*values):
    return (c_int * len(values))(*values)


def wave(kind, count):
    return (kind * count)(*[((i * 7) % 11 - 5) / 4 for i in range(count)])


def dims(kind, *rows):
    return (kind * len(rows))(*[kind(*row) for row in rows])


def rounded(values):
    return [round(value, 3) + 0.0 for value in values]


def function(prefix, name):
    call = getattr(fftw, prefix + name)
    call.restype = c_void_p if name.startswith("plan") else None
    return call


def run(prefix, what, name, arguments, source, target, **other):
    """Plans, runs, runs on another source; the flags come last."""
    plan = function(prefix, name)(*arguments, c_uint(ESTIMATE))
    show(prefix, what, bool(plan))
    if not plan:
        return
    before = list(source)
    function(prefix, "execute")(c_void_p(plan))
    show("values", rounded(target))
    if source is not target:
        for i, value in enumerate(before):
            source[i] = value * 2
        form = "_r2c" if "r2c" in name else "_c2r" if "c2r" in name else ""
        function(prefix, "execute_dft" + form)(c_void_p(plan), source, target)
        show("twice as much", rounded(target))
        for i, value in enumerate(before):
            source[i] = value
    function(prefix, "destroy_plan")(c_void_p(plan))


for prefix, kind in (("fftw_", c_double), ("fftwf_", c_float)):
    a, b = wave(kind, 256), (kind * 256)(*[9.0] * 256)
    null = None
    for sign in (FORWARD, BACKWARD):
        run(prefix, f"1d {sign}", "plan_dft_1d", (12, a, b, sign), a, b)
    check = [
        sum(
            complex(a[2 * i], a[2 * i + 1]) * cmath.exp(2j * cmath.pi * k * i / 12)
            for i in range(12)
        )
        for k in range(12)
    ]
    function(prefix, "execute")(
        c_void_p(function(prefix, "plan_dft_1d")(12, a, b, BACKWARD, c_uint(ESTIMATE)))
    )
    assert max(abs(complex(b[2 * k], b[2 * k + 1]) - check[k]) for k in range(12)) < 1e-3
    run(prefix, "2d", "plan_dft_2d", (4, 6, a, b, FORWARD), a, b)
    run(prefix, "3d", "plan_dft_3d", (2, 3, 4, a, b, FORWARD), a, b)
    run(prefix, "any", "plan_dft", (2, ints(4, 6), a, b, BACKWARD), a, b)
    for rank, size in ((1, (10,)), (2, (4, 6)), (3, (2, 3, 5))):
        run(prefix, f"r2c {rank}d", f"plan_dft_r2c_{rank}d", (*size, a, b), a, b)
        run(prefix, f"c2r {rank}d", f"plan_dft_c2r_{rank}d", (*size, a, b), a, b)
        run(prefix, "r2c", "plan_dft_r2c", (rank, ints(*size), a, b), a, b)
        run(prefix, "c2r", "plan_dft_c2r", (rank, ints(*size), a, b), a, b)
    same = wave(kind, 64)
    run(prefix, "in place", "plan_dft_1d", (16, same, same, FORWARD), same, same)
    same = wave(kind, 64)
    run(prefix, "in place r2c", "plan_dft_r2c_2d", (4, 6, same, same), same, same)
    run(prefix, "in place c2r", "plan_dft_c2r_2d", (4, 6, same, same), same, same)
    b = (kind * 256)(*[9.0] * 256)
    run(
        prefix,
        "many",
        "plan_many_dft",
        (1, ints(8), 3, a, null, 1, 8, b, null, 1, 8, FORWARD),
        a,
        b,
    )
    run(
        prefix,
        "columns",
        "plan_many_dft",
        (1, ints(4), 3, a, ints(4), 3, 1, b, ints(4), 3, 1, FORWARD),
        a,
        b,
    )
    b = (kind * 256)(*[9.0] * 256)
    run(
        prefix,
        "with gaps",
        "plan_many_dft",
        (2, ints(3, 4), 2, a, ints(4, 5), 1, 20, b, ints(3, 6), 2, 40, FORWARD),
        a,
        b,
    )
    run(
        prefix, "many r2c", "plan_many_dft_r2c", (1, ints(8), 3, a, null, 1, 8, b, null, 1, 5), a, b
    )
    run(
        prefix, "many c2r", "plan_many_dft_c2r", (1, ints(8), 3, a, null, 1, 5, b, null, 1, 8), a, b
    )
    for form, row in (("guru", Dim), ("guru64", Dim64)):
        run(
            prefix,
            form,
            f"plan_{form}_dft",
            (1, dims(row, (8, 1, 1)), 1, dims(row, (3, 8, 8)), a, b, FORWARD),
            a,
            b,
        )
        run(
            prefix,
            form + " columns",
            f"plan_{form}_dft",
            (1, dims(row, (4, 3, 3)), 1, dims(row, (3, 1, 1)), a, b, FORWARD),
            a,
            b,
        )
        run(
            prefix,
            form + " r2c",
            f"plan_{form}_dft_r2c",
            (2, dims(row, (4, 6, 4), (6, 1, 1)), 1, dims(row, (2, 24, 16)), a, b),
            a,
            b,
        )
        run(
            prefix,
            form + " c2r",
            f"plan_{form}_dft_c2r",
            (2, dims(row, (4, 4, 6), (6, 1, 1)), 1, dims(row, (2, 16, 24)), a, b),
            a,
            b,
        )
    show(
        "impossible",
        [
            bool(function(prefix, "plan_dft")(rank, ints(*sizes), a, b, FORWARD, c_uint(ESTIMATE)))
            for rank, sizes in ((1, (0,)), (1, (-4,)), (4, (2, 2, 2, 2)))
        ],
    )
    fftw.fftw_malloc.restype = c_void_p
    room = fftw.fftw_malloc(100)
    show("room", room % 16)
    fftw.fftw_free(c_void_p(room))
