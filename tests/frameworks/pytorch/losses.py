# SPDX-License-Identifier: Apache-2.0
"""Losses and their gradients."""

import torch
import torch.nn.functional as F
from subject import check, close, main

X, Y = torch.randn(32, 10), torch.randint(0, 10, (32,))
SOFT = torch.rand(32, 10)


def _loss(function, target):
    here = X.clone().requires_grad_()
    want = function(here, target)
    want.backward()
    there = X.cuda().requires_grad_()
    got = function(there, target.cuda())
    got.backward()
    close(got, want)
    close(there.grad, here.grad)


@check
def classification():
    _loss(F.cross_entropy, Y)
    _loss(lambda x, y: F.nll_loss(x.log_softmax(1), y), Y)
    _loss(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), Y)


@check
def regression():
    for function in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        _loss(function, SOFT)


@check
def probabilities():
    _loss(F.binary_cross_entropy_with_logits, SOFT)
    _loss(lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), SOFT)


@check
def connectionist_temporal_classification():
    log = torch.randn(20, 2, 6).log_softmax(2)
    targets, lengths = (
        torch.randint(1, 6, (2, 5), dtype=torch.int32),
        torch.tensor([20, 20], dtype=torch.int32),
    )
    sizes = torch.tensor([5, 5], dtype=torch.int32)
    close(
        F.ctc_loss(log.cuda(), targets.cuda(), lengths, sizes),
        F.ctc_loss(log, targets, lengths, sizes),
        rtol=1e-3,
    )


main()
