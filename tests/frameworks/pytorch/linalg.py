# SPDX-License-Identifier: Apache-2.0
"""Linear algebra by cuSOLVER, cuBLAS and MAGMA-free paths."""

import torch
from subject import EXECUTES, Skip, check, close, fact, main

A = torch.randn(32, 32) + 8 * torch.eye(32)
B = torch.randn(32, 4)


def solved(function):
    """A check whose functions read back a code that tells of errors. Older releases clear it by a kernel: nothing on a dry device."""

    def checked():
        try:
            function()
        except RuntimeError as error:
            if EXECUTES or "BatchLinearAlgebra" not in str(error):
                raise
            raise Skip("PyTorch reads an error's code that no kernel wrote") from None

    checked.__name__ = function.__name__
    return check(checked)


@solved
def systems_are_solved():
    close(torch.linalg.solve(A.cuda(), B.cuda()), torch.linalg.solve(A, B), rtol=1e-3, atol=1e-4)


@solved
def factorisations():
    spd = A @ A.t()
    close(torch.linalg.cholesky(spd.cuda()), torch.linalg.cholesky(spd), rtol=1e-2, atol=1e-3)
    q, r = torch.linalg.qr(A.cuda())
    close(q.cpu() @ r.cpu(), A, rtol=1e-2, atol=1e-3)
    lu, pivots = torch.linalg.lu_factor(A.cuda())
    close(lu, torch.linalg.lu_factor(A)[0], rtol=1e-2, atol=1e-3)


@solved
def values_and_vectors():
    close(torch.linalg.svdvals(A.cuda()), torch.linalg.svdvals(A), rtol=1e-3, atol=1e-3)
    close(
        torch.linalg.eigvalsh((A + A.t()).cuda()),
        torch.linalg.eigvalsh(A + A.t()),
        rtol=1e-3,
        atol=1e-3,
    )


@solved
def determinants_and_inverses():
    close(torch.linalg.inv(A.cuda()), torch.linalg.inv(A), rtol=1e-2, atol=1e-3)
    close(torch.linalg.slogdet(A.cuda()).logabsdet, torch.linalg.slogdet(A).logabsdet, rtol=1e-3)


@check
def triangular():
    t = A.tril()
    close(
        torch.linalg.solve_triangular(t.cuda(), B.cuda(), upper=False),
        torch.linalg.solve_triangular(t, B, upper=False),
        rtol=1e-2,
        atol=1e-3,
    )


@check
def a_singular_matrix_is_told():
    if not EXECUTES:
        raise Skip("whether a matrix is singular is a value that no kernel computed")
    try:
        torch.linalg.inv(torch.zeros(3, 3).cuda())
    except torch.linalg.LinAlgError:
        return
    fact(False, "inverted a matrix of zeros")


main()
