# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices by cuSPARSE."""

import torch
from subject import EXECUTES, Skip, check, close, main

DENSE = torch.randn(40, 50) * (torch.rand(40, 50) > 0.8)
B = torch.randn(50, 12)


@check
def compressed_rows_times_dense():
    csr = DENSE.to_sparse_csr()
    there = torch.sparse_csr_tensor(
        csr.crow_indices().cuda(), csr.col_indices().cuda(), csr.values().cuda(), (40, 50)
    )
    close(there @ B.cuda(), DENSE @ B, rtol=1e-3, atol=1e-4)


@check
def compressed_rows_times_vector():
    csr = DENSE.to_sparse_csr()
    there = torch.sparse_csr_tensor(
        csr.crow_indices().cuda(), csr.col_indices().cuda(), csr.values().cuda(), (40, 50)
    )
    close(there @ B[:, 0].contiguous().cuda(), DENSE @ B[:, 0], rtol=1e-3, atol=1e-4)


@check
def coordinates_times_dense():
    coo = DENSE.to_sparse()
    there = torch.sparse_coo_tensor(
        coo.indices().cuda(), coo.values().cuda(), (40, 50), is_coalesced=True
    )
    close(torch.sparse.mm(there, B.cuda()), DENSE @ B, rtol=1e-3, atol=1e-4)


@check
def made_from_dense_on_the_device():
    if not EXECUTES:
        raise Skip("how many entries there are is a value that no kernel computed")
    close(DENSE.cuda().to_sparse_csr() @ B.cuda(), DENSE @ B, rtol=1e-3, atol=1e-4)


main()
