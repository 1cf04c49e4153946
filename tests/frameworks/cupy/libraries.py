# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's libraries compute: cuBLAS, cuSOLVER, cuFFT, cuSPARSE, cuRAND."""

import cupy as cp
import numpy as np
from subject import check, fact, main, near

RNG = np.random.default_rng(3)
A, B = RNG.random((48, 32), np.float32), RNG.random((32, 40), np.float32)


@check
def products():
    near(cp.asarray(A) @ cp.asarray(B), A @ B, rtol=1e-4)
    near(
        cp.asarray(A.astype(np.float64)) @ cp.asarray(B.astype(np.float64)),
        A.astype(np.float64) @ B,
    )
    near(cp.dot(cp.asarray(A[0]), cp.asarray(A[1])), A[0] @ A[1], rtol=1e-4)


@check
def decompositions():
    square = A.T @ A + 32 * np.eye(32, dtype=np.float32)
    near(
        cp.linalg.solve(cp.asarray(square), cp.asarray(B[:, 0])),
        np.linalg.solve(square, B[:, 0]),
        rtol=1e-3,
    )
    near(cp.linalg.cholesky(cp.asarray(square)), np.linalg.cholesky(square), rtol=1e-3)
    near(
        cp.linalg.svd(cp.asarray(A), compute_uv=False),
        np.linalg.svd(A, compute_uv=False),
        rtol=1e-3,
    )


@check
def decompositions_of_many():
    # cuSOLVER's kernel for small matrices makes a table of who meets whom in a warp that it takes to be in lockstep.
    many = RNG.random((5, 6, 4))
    u, s, v = cp.linalg.svd(cp.asarray(many), full_matrices=False)
    near(s, np.linalg.svd(many, compute_uv=False), rtol=1e-9)
    near((u * s[:, None, :]) @ v, many, rtol=1e-9, atol=1e-12)


@check
def transforms():
    near(cp.fft.fft(cp.asarray(A)), np.fft.fft(A), rtol=1e-3, atol=1e-3)
    near(cp.fft.irfft(cp.fft.rfft(cp.asarray(A))), A, rtol=1e-3, atol=1e-4)


@check
def sparse_matrices():
    import cupyx.scipy.sparse as sparse

    dense = np.where(A > 0.8, A, 0).astype(np.float32)
    matrix = sparse.csr_matrix(cp.asarray(dense))
    near(matrix @ cp.asarray(B), dense @ B, rtol=1e-3, atol=1e-4)
    near(matrix.T.tocsr().toarray(), dense.T)


@check
def random_numbers():
    cp.random.seed(7)
    x = cp.random.rand(20000)
    cp.random.seed(7)
    fact(bool((x == cp.random.rand(20000)).all()), "the same seed gives other numbers")
    near(x.mean(), 0.5, rtol=0.03)
    near(cp.random.standard_normal(20000).std(), 1.0, rtol=0.05)


main()
