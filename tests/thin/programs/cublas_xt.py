# SPDX-License-Identifier: Apache-2.0
"""cublasXt: every matrix function of each type against sums made here, with matrices of the host, of the device, and padded ones.
Values are small integers, so that results are equal whatever the order of sums. Prints what differs; exit code 1 if anything does.

NVIDIA's own faults in cublasXtDeviceSelect on the CPU device (CUDA 13.0), so there is nothing to compare with there."""

import ctypes
import itertools
import sys
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_void_p

from device import Memory, start

start()
blas = ctypes.CDLL("libcublas.so.13")
TYPES = {"S": (c_float, 1), "D": (c_double, 1), "C": (c_float, 2), "Z": (c_double, 2)}
N, T, C = 0, 1, 2
LOWER, UPPER = 0, 1
LEFT, RIGHT = 0, 1
PAD = 77.0
wrong = 0


def check(what, holds):
    global wrong
    if not holds:
        wrong += 1
        print("differs:", what, flush=True)


def numbers(rows, columns, parts, seed):
    return [
        [
            complex((3 * i + 5 * j + seed) % 7 - 3, (i + 2 * j + seed) % 5 - 2 if parts == 2 else 0)
            for j in range(columns)
        ]
        for i in range(rows)
    ]


def transposed(a, op):
    if op == N:
        return a
    turn = (lambda z: z.conjugate()) if op == C else (lambda z: z)
    return [[turn(a[i][j]) for i in range(len(a))] for j in range(len(a[0]))]


def product(a, b):
    return [
        [sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))]
        for i in range(len(a))
    ]


def combined(alpha, a, beta, b):
    return [[alpha * x + beta * y for x, y in zip(row, other)] for row, other in zip(a, b)]


class Matrix:
    """Column-major, `pad` elements below each column that nobody may touch; on the host or the device."""

    def __init__(self, letter, values, on_device=False, pad=0):
        self.kind, self.parts = TYPES[letter]
        self.rows, self.columns = len(values), len(values[0])
        self.pitch = self.rows + pad
        flat = []
        for j in range(self.columns):
            for i in range(self.pitch):
                z = values[i][j] if i < self.rows else complex(PAD, PAD)
                flat += [z.real] if self.parts == 1 else [z.real, z.imag]
        self.host = (self.kind * len(flat))(*flat)
        self.memory = Memory(self.kind, len(flat), flat) if on_device else None
        self.at = c_void_p(self.memory.address.value) if on_device else self.host
        self.ld = c_size_t(self.pitch)

    def read(self):
        flat = self.memory.read() if self.memory else list(self.host)
        z = [
            complex(flat[i * self.parts], flat[i * self.parts + 1] if self.parts == 2 else 0)
            for i in range(len(flat) // self.parts)
        ]
        columns = [z[j * self.pitch : (j + 1) * self.pitch] for j in range(self.columns)]
        whole = all(value.real == PAD for column in columns for value in column[self.rows :])
        return [[columns[j][i] for j in range(self.columns)] for i in range(self.rows)], whole


def scalar(letter, value, real=False):
    kind, parts = TYPES[letter]
    return (kind * 2)(value.real, 0 if parts == 1 or real else value.imag)


def triangle(full, before, uplo):
    """Of a result only one triangle is written."""
    inside = (lambda i, j: j <= i) if uplo == LOWER else (lambda i, j: j >= i)
    return [
        [full[i][j] if inside(i, j) else before[i][j] for j in range(len(full))]
        for i in range(len(full))
    ]


def mirrored(a, uplo, conjugate=False):
    """The symmetric (Hermitian) matrix of which one triangle is stored."""
    turn = (lambda z: z.conjugate()) if conjugate else (lambda z: z)
    inside = (lambda i, j: j <= i) if uplo == LOWER else (lambda i, j: j >= i)
    return [
        [
            (complex(a[i][i].real) if conjugate else a[i][i])
            if i == j
            else a[i][j]
            if inside(i, j)
            else turn(a[j][i])
            for j in range(len(a))
        ]
        for i in range(len(a))
    ]


handle = c_void_p()
check("create", blas.cublasXtCreate(byref(handle)) == 0)
n_, one = c_size_t(4), c_float(1)
check(
    "no device selected",
    blas.cublasXtSgemm(
        handle, N, N, n_, n_, n_, byref(one), None, n_, None, n_, byref(one), None, n_
    )
    == 1,
)
check("a device that is none", blas.cublasXtDeviceSelect(handle, 1, (c_int * 1)(7)) == 7)
check("select", blas.cublasXtDeviceSelect(handle, 1, (c_int * 1)(0)) == 0)

m, n, k = 4, 3, 5
M, NN, K = c_size_t(m), c_size_t(n), c_size_t(k)
places = ((False, False, False), (True, False, True), (False, True, False), (True, True, True))
for letter, (kind, parts) in TYPES.items():
    call = lambda name, *arguments: getattr(blas, f"cublasXt{letter}{name}")(handle, *arguments)
    alpha, beta = complex(2, 1 if parts == 2 else 0), complex(-1, 0)
    A_, B_ = scalar(letter, alpha), scalar(letter, beta)
    for (opa, opb), place in itertools.product(((N, N), (T, N), (N, C)), places):
        a, b, c = numbers(m, k, parts, 1), numbers(k, n, parts, 2), numbers(m, n, parts, 3)
        stored = [transposed(a, T) if opa == T else a, transposed(b, C) if opb == C else b]
        X, Y, Z = (
            Matrix(letter, stored[0], place[0], 1),
            Matrix(letter, stored[1], place[1], 2),
            Matrix(letter, c, place[2], 3),
        )
        status = call("gemm", opa, opb, M, NN, K, A_, X.at, X.ld, Y.at, Y.ld, B_, Z.at, Z.ld)
        check(
            (letter, "gemm", opa, opb, place, status),
            status == 0 and Z.read() == (combined(alpha, product(a, b), beta, c), True),
        )
    for uplo, op in itertools.product((LOWER, UPPER), (N, T)):
        a, b, c = numbers(n, k, parts, 4), numbers(n, k, parts, 5), numbers(n, n, parts, 6)
        place = lambda values: transposed(values, T) if op == T else values
        X, Y = Matrix(letter, place(a), False, 1), Matrix(letter, place(b), True)
        for name, pairs in (("syrk", None), ("syr2k", 2), ("syrkx", 1)):
            Z = Matrix(letter, c, pad=1)
            more = (Y.at, Y.ld) if pairs else ()
            status = call(name, uplo, op, NN, K, A_, X.at, X.ld, *more, B_, Z.at, Z.ld)
            full = product(a, transposed(b if pairs else a, T))
            if pairs == 2:
                full = combined(1, full, 1, product(b, transposed(a, T)))
            if (
                pairs == 1
            ):  # what is wanted is symmetric only if the operands make it so: one triangle tells
                pass
            check(
                (letter, name, uplo, op, status),
                status == 0
                and Z.read() == (triangle(combined(alpha, full, beta, c), c, uplo), True),
            )
    for side, uplo in itertools.product((LEFT, RIGHT), (LOWER, UPPER)):
        order = m if side == LEFT else n
        a, b, c = numbers(order, order, parts, 7), numbers(m, n, parts, 8), numbers(m, n, parts, 9)
        for name in ("symm", "hemm", "spmm")[:: 1 if parts == 2 else 2]:
            full = mirrored(a, uplo, name == "hemm")
            if name == "spmm":
                packed = [
                    a[i][j]
                    for j in range(order)
                    for i in range(order)
                    if (i >= j if uplo == LOWER else i <= j)
                ]
                X = Matrix(letter, [[z] for z in packed])
                first = (X.at,)
            else:
                X = Matrix(letter, a, pad=1)
                first = (X.at, X.ld)
            Y, Z = Matrix(letter, b), Matrix(letter, c, pad=2)
            status = call(name, side, uplo, M, NN, A_, *first, Y.at, Y.ld, B_, Z.at, Z.ld)
            got = product(full, b) if side == LEFT else product(b, full)
            check(
                (letter, name, side, uplo, status),
                status == 0 and Z.read() == (combined(alpha, got, beta, c), True),
            )
        inside = (lambda i, j: j < i) if uplo == LOWER else (lambda i, j: j > i)
        unit = [
            [
                complex(1) if i == j else a[i][j] if inside(i, j) else complex(0)
                for j in range(order)
            ]
            for i in range(order)
        ]
        for op in (N, T, C):
            X, Y, Z = Matrix(letter, a, pad=1), Matrix(letter, b), Matrix(letter, c, pad=1)
            status = call("trmm", side, uplo, op, 1, M, NN, A_, X.at, X.ld, Y.at, Y.ld, Z.at, Z.ld)
            turned = transposed(unit, op)
            got = product(turned, b) if side == LEFT else product(b, turned)
            check(
                (letter, "trmm", side, uplo, op, status),
                status == 0 and Z.read() == (combined(alpha, got, 0, b), True),
            )
            # What was multiplied is divided again.
            W = Matrix(letter, combined(1, got, 0, b), pad=1)
            status = call(
                "trsm", side, uplo, op, 1, M, NN, scalar(letter, complex(1)), X.at, X.ld, W.at, W.ld
            )
            back, whole = W.read()
            close = (
                max(abs(x - y) for row, other in zip(back, b) for x, y in zip(row, other)) < 1e-2
            )
            check((letter, "trsm", side, uplo, op, status), status == 0 and close and whole)
    if parts == 2:
        real = lambda value: scalar(letter, complex(value), True)
        for uplo, op in itertools.product((LOWER, UPPER), (N, C)):
            a, b, c = (
                numbers(n, k, parts, 4),
                numbers(n, k, parts, 5),
                mirrored(numbers(n, n, parts, 6), uplo, True),
            )
            place = lambda values: transposed(values, C) if op == C else values
            X, Y = Matrix(letter, place(a)), Matrix(letter, place(b), True)
            Z = Matrix(letter, c, pad=1)
            status = call("herk", uplo, op, NN, K, real(2), X.at, X.ld, real(-1), Z.at, Z.ld)
            check(
                (letter, "herk", uplo, op, status),
                status == 0
                and Z.read()
                == (triangle(combined(2, product(a, transposed(a, C)), -1, c), c, uplo), True),
            )
            Z = Matrix(letter, c, pad=1)
            status = call(
                "her2k", uplo, op, NN, K, A_, X.at, X.ld, Y.at, Y.ld, real(-1), Z.at, Z.ld
            )
            both = combined(
                alpha, product(a, transposed(b, C)), alpha.conjugate(), product(b, transposed(a, C))
            )
            check(
                (letter, "her2k", uplo, op, status),
                status == 0 and Z.read() == (triangle(combined(1, both, -1, c), c, uplo), True),
            )
            Z, same = Matrix(letter, c, pad=1), Matrix(letter, place(a))
            status = call(
                "herkx",
                uplo,
                op,
                NN,
                K,
                real(2),
                X.at,
                X.ld,
                same.at,
                same.ld,
                real(-1),
                Z.at,
                Z.ld,
            )
            check(
                (letter, "herkx", uplo, op, status),
                status == 0
                and Z.read()
                == (triangle(combined(2, product(a, transposed(a, C)), -1, c), c, uplo), True),
            )

# Settings, and calls that are wrong.
found = c_int()
check("block", blas.cublasXtGetBlockDim(handle, byref(found)) == 0 and found.value == 1024)
check(
    "set block",
    [blas.cublasXtSetBlockDim(handle, b) for b in (0, -1, 64)] == [7, 7, 0]
    and blas.cublasXtGetBlockDim(handle, byref(found)) == 0
    and found.value == 64,
)
check(
    "pinning",
    [blas.cublasXtSetPinningMemMode(handle, b) for b in (1, 7)] == [0, 7]
    and blas.cublasXtGetPinningMemMode(handle, byref(found)) == 0
    and found.value == 1,
)
ratio = blas.cublasXtSetCpuRatio
ratio.argtypes = [c_void_p, c_int, c_int, c_float]
check(
    "ratio",
    [ratio(handle, op, kind, 0.5) for op, kind in ((0, 0), (12, 0), (0, 4), (5, 0))]
    == [0, 7, 7, 15],
)
room = (c_float * 16)()
product_of = lambda handle, ld=4, op=N, a=room, alpha=byref(one): blas.cublasXtSgemm(
    handle, op, N, n_, n_, n_, alpha, a, c_size_t(ld), room, n_, byref(one), room, n_
)
check("a pitch too small", product_of(handle, ld=2) == 7)
check("an operation that is none", product_of(handle, op=9) == 7)
check(
    "nulls",
    [product_of(handle, a=None), product_of(handle, alpha=None), product_of(None)] == [7, 7, 1],
)
check(
    "destroy",
    [blas.cublasXtDestroy(handle), blas.cublasXtDestroy(handle), product_of(handle)] == [0, 1, 1],
)
print("all equal" if wrong == 0 else f"{wrong} differ")
sys.exit(1 if wrong else 0)
