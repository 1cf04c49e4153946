# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libraries over many shapes and types: each shape has kernels of its own."""

import cupy as cp
import cupyx.scipy.sparse as sparse
import numpy as np
from subject import EXECUTES, Skip, check, main, near

RNG = np.random.default_rng(5)
TYPES = "fdFD"
BOUND = {"f": 1e-3, "F": 1e-3, "d": 1e-8, "D": 1e-8}


def made(shape, kind):
    a = RNG.standard_normal(shape)
    return (a + 1j * RNG.standard_normal(shape) if kind in "FD" else a).astype(kind)


def close(got, want, kind):
    """Within the bound of the largest number."""
    near(got, want, rtol=0, atol=BOUND[kind] * max(1, np.abs(want).max()))


@check
def decompositions():
    for kind in TYPES:
        for shape in ((1, 1), (3, 3), (17, 9), (9, 17), (40, 40), (100, 33)):
            a = made(shape, kind)
            u, s, v = cp.linalg.svd(cp.asarray(a), full_matrices=False)
            close((u * s) @ v, a, kind)
            q, r = cp.linalg.qr(cp.asarray(a))
            close(q @ r, a, kind)
            if shape[0] == shape[1]:
                h = (a + a.conj().T) / 2
                w, v = cp.linalg.eigh(cp.asarray(h))
                close((v * w) @ v.conj().T, h, kind)
                p = a @ a.conj().T + shape[0] * np.eye(shape[0], dtype=kind)
                b = made((shape[0], 3), kind)
                close(cp.asarray(p) @ cp.linalg.solve(cp.asarray(p), cp.asarray(b)), b, kind)
                close(cp.linalg.cholesky(cp.asarray(p)), np.linalg.cholesky(p), kind)


@check
def decompositions_of_many():
    for kind in TYPES:
        for shape in (
            (7, 2, 2),
            (3, 5, 5),
            (4, 8, 3),
            (2, 3, 16, 16),
            (6, 32, 32),
            (2, 31, 20),
            (1, 36, 36),
        ):
            a = made(shape, kind)
            close(
                cp.linalg.svd(cp.asarray(a), compute_uv=False),
                np.linalg.svd(a, compute_uv=False),
                kind,
            )
            if shape[-1] == shape[-2]:
                h = (a + a.conj().swapaxes(-1, -2)) / 2
                close(cp.linalg.eigvalsh(cp.asarray(h)), np.linalg.eigvalsh(h), kind)
                p = a @ a.conj().swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1], dtype=kind)
                close(
                    cp.asarray(p) @ cp.linalg.inv(cp.asarray(p)),
                    np.broadcast_to(np.eye(shape[-1]), shape),
                    kind,
                )


@check
def transforms():
    for kind in "FD":
        for n in (
            1,
            2,
            3,
            5,
            7,
            8,
            11,
            13,
            16,
            17,
            49,
            81,
            121,
            127,
            169,
            243,
            256,
            521,
            1000,
            1024,
            1331,
            2187,
            4096,
            4099,
            10007,
            16384,
        ):
            a = made((3, n), kind)
            close(cp.fft.fft(cp.asarray(a)), np.fft.fft(a), kind)
            close(cp.fft.irfft(cp.fft.rfft(cp.asarray(a.real.copy())), n=n), a.real, kind)
        for shape in ((4, 4), (31, 17), (64, 64), (100, 36), (5, 6, 7), (32, 20, 9)):
            a = made(shape, kind)
            close(cp.fft.fftn(cp.asarray(a)), np.fft.fftn(a), kind)


@check
def products():
    for kind in TYPES:
        for m, k, n in (
            (1, 1, 1),
            (5, 7, 3),
            (16, 16, 16),
            (33, 17, 65),
            (64, 64, 64),
            (1, 300, 1),
            (128, 1, 128),
            (257, 129, 130),
        ):
            a, b = made((m, k), kind), made((k, n), kind)
            for left in (cp.asarray(a), cp.asarray(a.T.copy()).T):
                for right in (cp.asarray(b), cp.asarray(b.T.copy()).T):
                    close(left @ right, a @ b, kind)
            close(cp.asarray(a) @ cp.asarray(b[:, 0].copy()), a @ b[:, 0], kind)


@check
def sparse_products():
    if not EXECUTES:
        raise Skip("sizes of results are values that no kernel computed")
    for kind in TYPES:
        for shape in ((5, 5), (40, 33), (300, 300)):
            dense = made(shape, kind) * (RNG.random(shape) < 0.15)
            x = made((shape[1], 6), kind)
            for form in ("csr", "csc", "coo"):
                matrix = getattr(sparse, form + "_matrix")(cp.asarray(dense))
                close(matrix @ cp.asarray(x[:, 0].copy()), dense @ x[:, 0], kind)
                close(matrix @ cp.asarray(x), dense @ x, kind)
            rows = sparse.csr_matrix(cp.asarray(dense))
            close((rows @ rows.T.tocsr()).toarray(), dense @ dense.T, kind)


main()
