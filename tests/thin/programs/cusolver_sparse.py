# SPDX-License-Identifier: Apache-2.0
"""cuSOLVER Sp: orderings, solvers and factorisations on the host and on the device, and calls that are wrong.
The matrix is of small integers, well conditioned; solutions are printed to a few digits, as each library has its own order of sums."""

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_size_t, c_void_p

from cusolver_sparse_data import grid, times
from device import Memory, new_stream, start

start()
sparse, solver = ctypes.CDLL("libcusparse.so.12"), ctypes.CDLL("libcusolver.so.12")
TYPES = {"S": (c_float, 1), "D": (c_double, 1), "C": (c_float, 2), "Z": (c_double, 2)}


def show(what, *results):
    print(what, *results, flush=True)


def ints(*values):
    return (c_int * len(values))(*values)


def made(name):
    out = c_void_p()
    assert getattr(solver, name)(byref(out)) == 0 and out.value, name
    return out


def digits(values):
    return [f"{value:.4f}".replace("-0.0000", "0.0000") for value in values]


handle = made("cusolverSpCreate")
descriptor = c_void_p()
assert sparse.cusparseCreateMatDescr(byref(descriptor)) == 0
rows, columns, values = grid(5)
n, nnz = len(rows) - 1, len(columns)
wanted = [float(i % 7 - 3) for i in range(n)]
right = times(rows, columns, values, wanted)
R, C = ints(*rows), ints(*columns)


def array(letter, real):
    kind, parts = TYPES[letter]
    flat = [number for value in real for number in ([value] if parts == 1 else [value, 0.0])]
    return (kind * len(flat))(*flat)


def tolerance(letter):
    return TYPES[letter][0](1e-6)


def real(letter, numbers):
    return list(numbers)[:: TYPES[letter][1]]


def on_device(host):
    memory = Memory(host._type_, len(host), list(host))
    return memory, c_void_p(memory.address.value)


# Properties and orderings: the same algorithm, so the same permutation.
found = c_int(-1)
show(
    "issym",
    solver.cusolverSpXcsrissymHost(handle, n, nnz, descriptor, R, ints(*rows[1:]), C, byref(found)),
    found.value,
)
permutation = None
for name in ("symrcm", "symmdq", "symamd"):
    p = (c_int * n)()
    show(
        name,
        getattr(solver, f"cusolverSpXcsr{name}Host")(handle, n, nnz, descriptor, R, C, p),
        list(p),
    )
    permutation = p
p = (c_int * n)()
show(
    "metisnd", solver.cusolverSpXcsrmetisndHost(handle, n, nnz, descriptor, R, C, None, p), list(p)
)
size = c_size_t(99)
show(
    "perm size",
    solver.cusolverSpXcsrperm_bufferSizeHost(
        handle, n, n, nnz, descriptor, R, C, permutation, permutation, byref(size)
    ),
    size.value > 0,
)
R2, C2, mapped = ints(*rows), ints(*columns), ints(*range(nnz))
show(
    "perm",
    solver.cusolverSpXcsrpermHost(
        handle,
        n,
        n,
        nnz,
        descriptor,
        R2,
        C2,
        permutation,
        permutation,
        mapped,
        ctypes.create_string_buffer(size.value),
    ),
    list(R2),
    list(C2),
    list(mapped),
)

for letter in TYPES:
    kind, parts = TYPES[letter]
    V, b, x = array(letter, values), array(letter, right), array(letter, [0.0] * n)
    at = c_int(7)
    for reorder in (0, 1, 2):
        for name in ("csrlsvlu", "csrlsvqr", "csrlsvchol"):
            x = array(letter, [0.0] * n)
            status = getattr(solver, f"cusolverSp{letter}{name}Host")(
                handle, n, nnz, descriptor, V, R, C, b, tolerance(letter), reorder, x, byref(at)
            )
            show(letter, name, reorder, status, at.value, digits(x))
    rank, norm, p = c_int(-1), kind(-1), (c_int * n)()
    x = array(letter, [0.0] * n)
    show(
        letter,
        "csrlsqvqr",
        getattr(solver, f"cusolverSp{letter}csrlsqvqrHost")(
            handle,
            n,
            n,
            nnz,
            descriptor,
            V,
            R,
            C,
            b,
            tolerance(letter),
            byref(rank),
            x,
            p,
            byref(norm),
        ),
        rank.value,
        norm.value < 1e-3,
        digits(x),
        sorted(p),
    )
    p, count = (c_int * n)(), c_int(-1)
    show(
        letter,
        "csrzfd",
        getattr(solver, f"cusolverSp{letter}csrzfdHost")(
            handle, n, nnz, descriptor, V, R, C, p, byref(count)
        ),
        count.value,
        list(p),
    )

# An eigenvalue near 3, and how many lie in a box.
V, x, start_at = array("D", values), array("D", [0.0] * n), array("D", [1.0] * n)
mu = c_double(0)
show(
    "csreigvsi",
    solver.cusolverSpDcsreigvsiHost(
        handle,
        n,
        nnz,
        descriptor,
        V,
        R,
        C,
        c_double(3),
        start_at,
        200,
        c_double(1e-8),
        byref(mu),
        x,
    ),
    digits([mu.value]),
)


class Complex(ctypes.Structure):
    _fields_ = [("re", c_double), ("im", c_double)]


show(
    "csreigs",
    solver.cusolverSpDcsreigsHost(
        handle, n, nnz, descriptor, V, R, C, Complex(0, -1), Complex(20, 1), byref(found)
    ),
    found.value,
)

# Factorisations on the host: analysed, sized, factored, solved again and again.
for letter in TYPES:
    kind, parts = TYPES[letter]
    V, b = array(letter, values), array(letter, right)
    call = lambda name, *arguments: getattr(solver, f"cusolverSp{letter}{name}Host")(
        handle, *arguments
    )
    for factor in ("csrlu", "csrchol"):
        info = made(f"cusolverSpCreate{factor.capitalize()}InfoHost")
        inner, work = c_size_t(), c_size_t()
        show(
            letter,
            factor,
            getattr(solver, f"cusolverSpX{factor}AnalysisHost")(
                handle, n, nnz, descriptor, R, C, info
            ),
        )
        show(
            letter,
            factor,
            "sizes",
            call(
                f"{factor}BufferInfo", n, nnz, descriptor, V, R, C, info, byref(inner), byref(work)
            ),
            inner.value,
            work.value,
        )
        room = ctypes.create_string_buffer(max(1, work.value))
        threshold = (kind(1.0),) if factor == "csrlu" else ()
        show(
            letter,
            factor,
            "factor",
            call(f"{factor}Factor", n, nnz, descriptor, V, R, C, info, *threshold, room),
        )
        show(
            letter,
            factor,
            "pivot",
            call(f"{factor}ZeroPivot", info, tolerance(letter), byref(found)),
            found.value,
        )
        for _ in range(2):
            x = array(letter, [0.0] * n)
            show(letter, factor, "solve", call(f"{factor}Solve", n, b, x, info, room), digits(x))
        if factor == "csrlu":
            lower, upper = c_int(), c_int()
            show(
                letter,
                "nnz",
                solver.cusolverSpXcsrluNnzHost(handle, byref(lower), byref(upper), info),
                lower.value,
                upper.value,
            )
            P, Q = (c_int * n)(), (c_int * n)()
            parts_of = [
                (array(letter, [0.0] * k), (c_int * (n + 1))(), (c_int * k)())
                for k in (lower.value, upper.value)
            ]
            (VL, RL, CL), (VU, RU, CU) = parts_of
            show(
                letter,
                "extract",
                call(
                    "csrluExtract", P, Q, descriptor, VL, RL, CL, descriptor, VU, RU, CU, info, room
                ),
                list(P),
                list(Q),
                list(RL),
                list(CL),
                list(RU),
                list(CU),
                digits(VL),
                digits(VU),
            )
        show("end", getattr(solver, f"cusolverSpDestroy{factor.capitalize()}InfoHost")(info))
    info = made("cusolverSpCreateCsrqrInfoHost")
    inner, work = c_size_t(), c_size_t()
    show(
        letter,
        "csrqr",
        solver.cusolverSpXcsrqrAnalysisHost(handle, n, n, nnz, descriptor, R, C, info),
    )
    show(
        letter,
        "csrqr",
        "sizes",
        call("csrqrBufferInfo", n, n, nnz, descriptor, V, R, C, info, byref(inner), byref(work)),
        work.value > 0,
    )
    room = ctypes.create_string_buffer(max(1, work.value))
    if parts == 1:
        show(
            letter,
            "csrqr",
            "setup",
            call("csrqrSetup", n, n, nnz, descriptor, V, R, C, kind(0), info),
        )
        show(letter, "csrqr", "factor", call("csrqrFactor", n, n, nnz, None, None, info, room))
        show(
            letter,
            "csrqr",
            "pivot",
            call("csrqrZeroPivot", info, tolerance(letter), byref(found)),
            found.value,
        )
        x = array(letter, [0.0] * n)
        show(
            letter,
            "csrqr",
            "solve",
            call("csrqrSolve", n, n, array(letter, right), x, info, room),
            digits(x),
        )
    show("end", solver.cusolverSpDestroyCsrqrInfoHost(info))

# The same on the device, on a stream.
stream = new_stream()
show("stream", solver.cusolverSpSetStream(handle, stream))
R_memory, dR = on_device(R)
C_memory, dC = on_device(C)
for letter in ("S", "D"):
    kind = TYPES[letter][0]
    V_memory, dV = on_device(array(letter, values))
    b_memory, db = on_device(array(letter, right))
    call = lambda name, *arguments: getattr(solver, f"cusolverSp{letter}{name}")(handle, *arguments)
    info = made("cusolverSpCreateCsrcholInfo")
    inner, work = c_size_t(), c_size_t()
    x_memory = Memory(kind, n)
    dx = c_void_p(x_memory.address.value)
    show(
        letter,
        "device csrchol",
        solver.cusolverSpXcsrcholAnalysis(handle, n, nnz, descriptor, dR, dC, info),
    )
    show(
        letter,
        "sizes",
        call("csrcholBufferInfo", n, nnz, descriptor, dV, dR, dC, info, byref(inner), byref(work)),
        inner.value,
        work.value,
    )
    room = Memory(ctypes.c_uint8, max(1, work.value))
    droom = c_void_p(room.address.value)
    show(letter, "factor", call("csrcholFactor", n, nnz, descriptor, dV, dR, dC, info, droom))
    show(
        letter,
        "pivot",
        call("csrcholZeroPivot", info, tolerance(letter), byref(found)),
        found.value,
    )
    show(
        letter, "solve", call("csrcholSolve", n, db, dx, info, droom), digits(x_memory.read(stream))
    )
    show(letter, "diag", call("csrcholDiag", info, dx), digits(x_memory.read(stream)))
    show("end", solver.cusolverSpDestroyCsrcholInfo(info))
    info = made("cusolverSpCreateCsrqrInfo")
    show(
        letter,
        "device csrqr",
        solver.cusolverSpXcsrqrAnalysis(handle, n, n, nnz, descriptor, dR, dC, info),
    )
    show(
        letter,
        "sizes",
        call("csrqrBufferInfo", n, n, nnz, descriptor, dV, dR, dC, info, byref(inner), byref(work)),
        inner.value,
        work.value,
    )
    room = Memory(ctypes.c_uint8, max(1, work.value))
    droom = c_void_p(room.address.value)
    show(letter, "setup", call("csrqrSetup", n, n, nnz, descriptor, dV, dR, dC, kind(0), info))
    show(letter, "factor", call("csrqrFactor", n, n, nnz, None, None, info, droom))
    show(
        letter, "pivot", call("csrqrZeroPivot", info, tolerance(letter), byref(found)), found.value
    )
    show(
        letter,
        "solve",
        call("csrqrSolve", n, n, db, dx, info, droom),
        digits(x_memory.read(stream)),
    )
    show("end", solver.cusolverSpDestroyCsrqrInfo(info))

# A matrix whose arrays are longer than a record and a reply.
rows, columns, values = grid(300)
n, nnz = len(rows) - 1, len(columns)
wanted = [float(i % 11 - 5) for i in range(n)]
V, b, x = (
    array("D", values),
    array("D", times(rows, columns, values, wanted)),
    array("D", [0.0] * n),
)
show(
    "large",
    solver.cusolverSpDcsrlsvcholHost(
        handle,
        n,
        nnz,
        descriptor,
        V,
        ints(*rows),
        ints(*columns),
        b,
        c_double(1e-9),
        2,
        x,
        byref(found),
    ),
    found.value,
    max(abs(x[i] - wanted[i]) for i in range(n)) < 1e-6,
)

# Calls that are wrong.
show(
    "no handle",
    solver.cusolverSpDcsrlsvcholHost(
        None, 1, 1, descriptor, V, ints(0, 1), ints(0), b, c_double(0), 0, x, byref(found)
    ),
)
show(
    "singular",
    solver.cusolverSpDcsrlsvluHost(
        handle,
        2,
        2,
        descriptor,
        array("D", [1.0, 0.0]),
        ints(0, 1, 2),
        ints(0, 1),
        b,
        c_double(1e-12),
        0,
        x,
        byref(found),
    ),
    found.value,
)
show(
    "a negative size",
    solver.cusolverSpXcsrsymrcmHost(handle, -1, 0, descriptor, R, C, (c_int * 1)()),
)
show("end", solver.cusolverSpDestroy(handle), sparse.cusparseDestroyMatDescr(descriptor))
