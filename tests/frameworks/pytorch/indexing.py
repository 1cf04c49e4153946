# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters, masks, embeddings. What sizes its result by values on the device needs a device that computes."""

import torch
from subject import EXECUTES, Skip, check, close, equal, main

A = torch.randn(50, 40)
ROWS = torch.randint(0, 50, (30,))


@check
def rows_by_index():
    equal(A.cuda()[ROWS.cuda()], A[ROWS])
    equal(A.cuda().index_select(0, ROWS.cuda()), A.index_select(0, ROWS))
    equal(
        torch.take_along_dim(A.cuda(), ROWS.cuda()[:, None], 0),
        torch.take_along_dim(A, ROWS[:, None], 0),
    )


@check
def gather_and_scatter():
    where = torch.randint(0, 40, (50, 8))
    equal(A.cuda().gather(1, where.cuda()), A.gather(1, where))
    source = torch.randn(30, 40)
    unique = torch.randperm(50)[:30]
    equal(A.cuda().index_copy(0, unique.cuda(), source.cuda()), A.index_copy(0, unique, source))
    close(
        A.cuda().index_add(0, ROWS.cuda(), source.cuda()), A.index_add(0, ROWS, source), rtol=1e-3
    )


@check
def assignments():
    there, here = A.cuda(), A.clone()
    there[2:9, ::3] = 5
    here[2:9, ::3] = 5
    there[ROWS.cuda()] = 1
    here[ROWS] = 1
    equal(there, here)
    there.masked_fill_(there > 0, 0)
    here.masked_fill_(here > 0, 0)
    equal(there, here)


@check
def embeddings():
    table = torch.randn(50, 16)
    equal(
        torch.nn.functional.embedding(ROWS.cuda(), table.cuda()),
        torch.nn.functional.embedding(ROWS, table),
    )


@check
def shapes_that_move_memory():
    equal(A.cuda().flip(0), A.flip(0))
    equal(A.cuda().roll(3, 1), A.roll(3, 1))
    equal(A.cuda().tril(), A.tril())
    equal(torch.nn.functional.pad(A.cuda(), (1, 2)), torch.nn.functional.pad(A, (1, 2)))


@check
def results_sized_by_values():
    if not EXECUTES:
        raise Skip("the size of the result is a value that no kernel computed")
    equal(A.cuda()[A.cuda() > 0], A[A > 0])
    equal((A.cuda() > 1).nonzero(), (A > 1).nonzero())
    equal(ROWS.cuda().unique(), ROWS.unique())


main()
