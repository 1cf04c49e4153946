# SPDX-License-Identifier: Apache-2.0
"""Sums, extremes, scans, sorts, histograms: CUB and Thrust underneath."""

import cupy as cp
import numpy as np
from subject import EXECUTES, Skip, check, main, near, same

RNG = np.random.default_rng(2)
A = RNG.random((40, 129), np.float32)


@check
def sums_and_means():
    a = cp.asarray(A)
    near(a.sum(), A.sum(), rtol=1e-4)
    near(a.sum(axis=0), A.sum(axis=0), rtol=1e-4)
    near(a.mean(axis=1), A.mean(axis=1), rtol=1e-4)
    near(a.var(), A.var(), rtol=1e-3)


@check
def extremes():
    a = cp.asarray(A)
    near(a.max(), A.max())
    same(a.argmin(axis=1), A.argmin(axis=1))


@check
def scans():
    near(cp.cumsum(cp.asarray(A[0])), np.cumsum(A[0]), rtol=1e-4)


@check
def sorts():
    a = cp.asarray(A.ravel())
    same(cp.sort(a), np.sort(A.ravel()))
    same(cp.argsort(cp.asarray(A[0])), np.argsort(A[0]))


@check
def partitions():
    # Its kernel sorts in plain memory, in a warp that it takes to be in lockstep.
    many = RNG.permutation(20000).astype(np.float32)
    for k in (20, 300):
        got = cp.partition(cp.asarray(many), k)
        same(cp.sort(got[:k]), np.arange(k, dtype=np.float32))
        same(got[k], np.float32(k))


@check
def results_sized_by_values():
    if not EXECUTES:
        raise Skip("the size of the result is a value that no kernel computed")
    same(cp.unique(cp.asarray([3, 1, 3, 2])), np.unique([3, 1, 3, 2]))
    values = (A.ravel() * 50).astype(np.int32)
    same(cp.bincount(cp.asarray(values)), np.bincount(values))
    same(cp.nonzero(cp.asarray(A[0] > 0.5))[0], np.nonzero(A[0] > 0.5)[0])


@check
def lookups():
    same(cp.asarray(A)[:, cp.asarray([3, 1, 2])], A[:, [3, 1, 2]])


main()
