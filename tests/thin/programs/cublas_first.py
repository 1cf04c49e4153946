# SPDX-License-Identifier: Apache-2.0
"""The first cuBLAS API: memory, vectors and matrices of each type, results by return, errors by cublasGetError. Values are small
integers, so that no order of sums shows."""

import ctypes
from ctypes import byref, c_char, c_double, c_float, c_int, c_void_p

from device import Memory, new_stream, start

start()
blas = ctypes.CDLL("libcublas.so.13")


class Complex(ctypes.Structure):
    _fields_ = [("re", c_float), ("im", c_float)]


class DoubleComplex(ctypes.Structure):
    _fields_ = [("re", c_double), ("im", c_double)]


TYPES = {"S": c_float, "D": c_double, "C": Complex, "Z": DoubleComplex}


def show(what, *results):
    print(what, *results, "error", blas.cublasGetError(), flush=True)


def plain(value):
    return (value.re, value.im) if isinstance(value, ctypes.Structure) else value


def element(kind, value):
    return kind(value, value % 3 - 1) if issubclass(kind, ctypes.Structure) else kind(value)


class Vector(Memory):
    def __init__(self, kind, values):
        super().__init__(kind, len(values), [element(kind, value) for value in values])
        self.at = c_void_p(self.address.value)

    def text(self):
        return [plain(value) for value in self.read()]


def call(name, types, *arguments, result=None):
    function = getattr(blas, name)
    function.restype, function.argtypes = result, types
    out = function(*arguments)
    return plain(out)


I, P, L = c_int, c_void_p, c_char
version = c_int(-1)
# Nothing need be initialised first.
show("init", blas.cublasInit(), blas.cublasInit())
show("version", blas.cublasGetVersion(byref(version)), version.value)
memory = c_void_p()
show("alloc", blas.cublasAlloc(12, 4, byref(memory)), bool(memory.value))
numbers = (c_float * 12)(*range(12))
back = (c_float * 12)()
show(
    "matrix",
    blas.cublasSetMatrix(3, 4, 4, numbers, 3, memory, 3),
    blas.cublasGetMatrix(3, 4, 4, memory, 3, back, 3),
    list(back),
)
show("free", blas.cublasFree(memory), blas.cublasFree(None))
show("alloc nothing", blas.cublasAlloc(0, 4, byref(memory)), blas.cublasAlloc(4, -1, byref(memory)))
show("stream", blas.cublasSetKernelStream(new_stream()), blas.cublasSetKernelStream(None))

for letter, kind in TYPES.items():
    real = {"C": c_float, "Z": c_double}.get(letter, kind)
    number = lambda value: element(kind, value)
    x, y = Vector(kind, [1, -2, 3, 4]), Vector(kind, [2, 1, 0, -1])
    call(f"cublas{letter}axpy", [I, kind, P, I, P, I], 4, number(3), x.at, 1, y.at, 1)
    show(letter, "axpy", y.text())
    call(f"cublas{letter}swap", [I, P, I, P, I], 2, x.at, 2, y.at, 2)
    call(f"cublas{letter}copy", [I, P, I, P, I], 1, x.at, 1, y.at, 1)
    call(f"cublas{letter}scal", [I, kind, P, I], 4, number(2), x.at, 1)
    show(letter, "swap, copy, scal", x.text(), y.text())
    for dot in ("dot",) if letter in "SD" else ("dotu", "dotc"):
        show(
            letter,
            dot,
            call(f"cublas{letter}{dot}", [I, P, I, P, I], 4, x.at, 1, y.at, 1, result=kind),
        )
    long = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[letter]
    show(letter, "asum", call(f"cublas{long}asum", [I, P, I], 4, x.at, 1, result=real))
    line = Vector(kind, [3, 0, 0, 0]) if letter in "CZ" else Vector(kind, [3, 4, 0, 0])
    show(letter, "nrm2", round(call(f"cublas{long}nrm2", [I, P, I], 4, line.at, 1, result=real), 4))
    show(
        letter,
        "amax",
        call(f"cublasI{letter.lower()}amax", [I, P, I], 4, x.at, 1, result=I),
        call(f"cublasI{letter.lower()}amin", [I, P, I], 4, x.at, 1, result=I),
    )
    A, B, C = Vector(kind, [1, 2, 3, 4]), Vector(kind, [0, 1, -1, 2]), Vector(kind, [1, 1, 1, 1])
    call(
        f"cublas{letter}gemv",
        [L, I, I, kind, P, I, P, I, kind, P, I],
        b"n",
        2,
        2,
        number(1),
        A.at,
        2,
        x.at,
        1,
        number(2),
        y.at,
        1,
    )
    show(letter, "gemv", y.text())
    for a, b in ((b"n", b"T"), (b"c", b"N")):
        call(
            f"cublas{letter}gemm",
            [L, L, I, I, I, kind, P, I, P, I, kind, P, I],
            a,
            b,
            2,
            2,
            2,
            number(1),
            A.at,
            2,
            B.at,
            2,
            number(1),
            C.at,
            2,
        )
        show(letter, "gemm", C.text())
    call(
        f"cublas{letter}symm",
        [L, L, I, I, kind, P, I, P, I, kind, P, I],
        b"l",
        b"U",
        2,
        2,
        number(1),
        A.at,
        2,
        B.at,
        2,
        number(0),
        C.at,
        2,
    )
    show(letter, "symm", C.text())
    call(
        f"cublas{letter}syrk",
        [L, L, I, I, kind, P, I, kind, P, I],
        b"u",
        b"n",
        2,
        2,
        number(1),
        A.at,
        2,
        number(1),
        C.at,
        2,
    )
    call(
        f"cublas{letter}syr2k",
        [L, L, I, I, kind, P, I, P, I, kind, P, I],
        b"l",
        b"t",
        2,
        2,
        number(1),
        A.at,
        2,
        B.at,
        2,
        number(1),
        C.at,
        2,
    )
    show(letter, "syrk, syr2k", C.text())
    call(
        f"cublas{letter}trmm",
        [L, L, L, L, I, I, kind, P, I, P, I],
        b"l",
        b"u",
        b"n",
        b"n",
        2,
        2,
        number(1),
        A.at,
        2,
        B.at,
        2,
    )
    show(letter, "trmm", B.text())
    call(
        f"cublas{letter}trsm",
        [L, L, L, L, I, I, kind, P, I, P, I],
        b"r",
        b"l",
        b"t",
        b"u",
        2,
        2,
        number(1),
        A.at,
        2,
        B.at,
        2,
    )
    show(letter, "trsm", B.text())
    z = Vector(kind, [1, 2])
    call(f"cublas{letter}trmv", [L, L, L, I, P, I, P, I], b"u", b"t", b"n", 2, A.at, 2, z.at, 1)
    show(letter, "trmv", z.text())
    call(
        f"cublas{letter}{'ger' if letter in 'SD' else 'geru'}",
        [I, I, kind, P, I, P, I, P, I],
        2,
        2,
        number(1),
        x.at,
        1,
        y.at,
        1,
        A.at,
        2,
    )
    show(letter, "ger", A.text())
    if letter in "CZ":
        call(
            f"cublas{letter}hemm",
            [L, L, I, I, kind, P, I, P, I, kind, P, I],
            b"r",
            b"l",
            2,
            2,
            number(1),
            A.at,
            2,
            B.at,
            2,
            number(0),
            C.at,
            2,
        )
        call(
            f"cublas{letter}herk",
            [L, L, I, I, real, P, I, real, P, I],
            b"l",
            b"c",
            2,
            2,
            real(1),
            A.at,
            2,
            real(1),
            C.at,
            2,
        )
        show(letter, "hemm, herk", C.text())

# Rotations, whose numbers are the host's.
x, y = Vector(c_float, [1, 2, 3]), Vector(c_float, [4, 5, 6])
call("cublasSrot", [I, P, I, P, I, c_float, c_float], 3, x.at, 1, y.at, 1, 0.0, 1.0)
show("rot", x.text(), y.text())
call("cublasSrotm", [I, P, I, P, I, P], 3, x.at, 1, y.at, 1, (c_float * 5)(-1, 1, 2, 0, 1))
show("rotm", x.text(), y.text())
a, b, c, s = c_float(3), c_float(4), c_float(), c_float()
call("cublasSrotg", [P, P, P, P], byref(a), byref(b), byref(c), byref(s))
show("rotg", *[round(value.value, 4) for value in (a, b, c, s)])

# Calls that are wrong.
call("cublasStrmv", [L, L, L, I, P, I, P, I], b"q", b"n", b"n", 2, x.at, 2, y.at, 1)
show("a letter that is none")
show("nothing to sum", call("cublasSdot", [I, P, I, P, I], 0, x.at, 1, y.at, 1, result=c_float))
show("shutdown", blas.cublasShutdown(), blas.cublasShutdown())
