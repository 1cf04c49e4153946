# SPDX-License-Identifier: Apache-2.0
"""Sums, extremes, norms, scans, softmax, and layers built on them."""

import torch
import torch.nn.functional as F
from subject import check, close, equal, main

A = torch.randn(64, 200)


@check
def sums_and_means():
    close(A.cuda().sum(), A.sum(), rtol=1e-3, atol=1e-3)
    close(A.cuda().sum(1), A.sum(1), rtol=1e-3, atol=1e-4)
    close(A.cuda().mean(0), A.mean(0))
    close(A.cuda().var(1), A.var(1))
    close(A.cuda().norm(), A.norm())


@check
def extremes():
    close(A.cuda().max(), A.max())
    values, indices = A.cuda().max(1)
    close(values, A.max(1).values)
    equal(indices, A.max(1).indices)
    equal(A.cuda().argmin(0), A.argmin(0))


@check
def scans_and_sorts():
    close(A.cuda().cumsum(1), A.cumsum(1), rtol=1e-3, atol=1e-3)
    equal(A.cuda().sort(1).values, A.sort(1).values)
    equal(A.cuda().topk(5, 1).values, A.topk(5, 1).values)


@check
def softmax_and_logsumexp():
    close(A.cuda().softmax(1), A.softmax(1))
    close(A.cuda().log_softmax(1), A.log_softmax(1))
    close(A.cuda().logsumexp(1), A.logsumexp(1))


@check
def normalisations():
    close(F.layer_norm(A.cuda(), (200,)), F.layer_norm(A, (200,)), rtol=1e-3, atol=1e-4)
    x = torch.randn(4, 8, 6, 6)
    close(F.group_norm(x.cuda(), 2), F.group_norm(x, 2), rtol=1e-3, atol=1e-4)
    close(
        F.batch_norm(x.cuda(), None, None, training=True),
        F.batch_norm(x, None, None, training=True),
        rtol=1e-3,
        atol=1e-4,
    )
    close(F.rms_norm(A.cuda(), (200,)), F.rms_norm(A, (200,)), rtol=1e-3, atol=1e-4)


@check
def logic():
    equal((A.cuda() > 9).any(), (A > 9).any())
    equal((A.cuda() < 9).all(1), (A < 9).all(1))


main()
