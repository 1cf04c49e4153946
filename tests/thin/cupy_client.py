# SPDX-License-Identifier: Apache-2.0
"""Linear algebra by CuPy against NumPy: prints a line a family, and which libraries were mapped."""

import numpy as np
import cupy as cp
from cupyx.scipy import sparse

rng = np.random.default_rng(7)


def close(name, got, wanted, tolerance=2e-4):
    got = cp.asnumpy(got)
    error = float(np.max(np.abs(got - wanted)) / max(1.0, float(np.max(np.abs(wanted)))))
    print(name, "ok" if error < tolerance else f"WRONG by {error}", flush=True)


def attempt(name, what):
    try:
        what()
    except Exception as error:  # noqa: BLE001: the next family is looked at all the same
        print(name, "FAILED", type(error).__name__, str(error)[:200], flush=True)


a = rng.standard_normal((24, 16)).astype(np.float32)
b = rng.standard_normal((16, 20)).astype(np.float32)
square = rng.standard_normal((12, 12)).astype(np.float64)
spd = square @ square.T + 12 * np.eye(12)
A, B, S, P = map(cp.asarray, (a, b, square, spd))
attempt("matmul", lambda: close("matmul", A @ B, a @ b))
attempt("matmul64", lambda: close("matmul64", S @ S, square @ square))
attempt(
    "batched",
    lambda: close(
        "batched", cp.matmul(cp.stack([A] * 3), cp.stack([B] * 3)), np.stack([a @ b] * 3)
    ),
)
attempt("dot", lambda: close("dot", cp.dot(A[:, 0], A[:, 1]), np.dot(a[:, 0], a[:, 1])))
attempt(
    "half",
    lambda: close(
        "half", A.astype(np.float16) @ B.astype(np.float16), (a @ b).astype(np.float32), 2e-2
    ),
)
attempt(
    "complex", lambda: close("complex", (A + 1j * A) @ B.astype(np.complex64), (a + 1j * a) @ b)
)
attempt("cholesky", lambda: close("cholesky", cp.linalg.cholesky(P), np.linalg.cholesky(spd)))
attempt(
    "solve", lambda: close("solve", cp.linalg.solve(P, S[:, 0]), np.linalg.solve(spd, square[:, 0]))
)
attempt("eigh", lambda: close("eigh", cp.linalg.eigvalsh(P), np.linalg.eigvalsh(spd)))
attempt(
    "svd",
    lambda: close("svd", cp.linalg.svd(A, compute_uv=False), np.linalg.svd(a, compute_uv=False)),
)
attempt("qr", lambda: close("qr", cp.abs(cp.linalg.qr(S)[1]), np.abs(np.linalg.qr(square)[1])))
attempt("inv", lambda: close("inv", cp.linalg.inv(P), np.linalg.inv(spd)))
dense = np.where(rng.random((30, 30)) < 0.2, rng.standard_normal((30, 30)), 0).astype(np.float32)
vector = rng.standard_normal(30).astype(np.float32)


def spmv():
    close("spmv", sparse.csr_matrix(cp.asarray(dense)) @ cp.asarray(vector), dense @ vector)


def spmm():
    close("spmm", sparse.csr_matrix(cp.asarray(dense)) @ cp.asarray(dense), dense @ dense)


def spgemm():
    m = sparse.csr_matrix(cp.asarray(dense))
    close("spgemm", (m @ m).toarray(), dense @ dense)


def spadd():
    m = sparse.csr_matrix(cp.asarray(dense))
    close("spadd", (m + m.T.tocsr()).toarray(), dense + dense.T)


for name, what in (("spmv", spmv), ("spmm", spmm), ("spgemm", spgemm), ("spadd", spadd)):
    attempt(name, what)
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line}
print(
    "mapped",
    sorted(path for path in maps if any(n in path for n in ("cublas", "cusolver", "cusparse"))),
)
