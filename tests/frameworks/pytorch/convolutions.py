# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN, forwards and backwards."""

import torch
import torch.nn.functional as F
from subject import check, close, fact, main

torch.backends.cudnn.allow_tf32 = False


@check
def cudnn_is_there():
    fact(torch.backends.cudnn.is_available() and torch.backends.cudnn.version() > 8000, "no cuDNN")


def _forward(function, x, w, **options):
    close(function(x.cuda(), w.cuda(), **options), function(x, w, **options), rtol=1e-3, atol=1e-3)


@check
def two_dimensions():
    _forward(F.conv2d, torch.randn(4, 3, 32, 32), torch.randn(8, 3, 3, 3), padding=1)


@check
def one_and_three_dimensions():
    _forward(F.conv1d, torch.randn(2, 4, 50), torch.randn(6, 4, 5))
    _forward(F.conv3d, torch.randn(1, 2, 8, 8, 8), torch.randn(3, 2, 3, 3, 3))


@check
def strides_groups_and_dilation():
    _forward(F.conv2d, torch.randn(2, 4, 20, 20), torch.randn(8, 4, 3, 3), stride=2)
    _forward(F.conv2d, torch.randn(2, 4, 20, 20), torch.randn(8, 2, 3, 3), groups=2)
    _forward(F.conv2d, torch.randn(2, 4, 20, 20), torch.randn(8, 4, 3, 3), dilation=2)


@check
def transposed():
    _forward(F.conv_transpose2d, torch.randn(2, 4, 10, 10), torch.randn(4, 6, 3, 3), stride=2)


@check
def half_precision():
    x, w = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3)
    got = F.conv2d(x.half().cuda(), w.half().cuda())
    close(got, F.conv2d(x.half().float(), w.half().float()).half(), rtol=2e-2, atol=2e-1)


@check
def gradients():
    x, w = (
        torch.randn(2, 3, 12, 12, requires_grad=True),
        torch.randn(4, 3, 3, 3, requires_grad=True),
    )
    y = F.conv2d(x, w)
    grad = torch.randn_like(y)
    y.backward(grad)
    a, b = x.detach().cuda().requires_grad_(), w.detach().cuda().requires_grad_()
    F.conv2d(a, b).backward(grad.cuda())
    close(a.grad, x.grad, rtol=1e-3, atol=1e-3)
    close(b.grad, w.grad, rtol=1e-3, atol=1e-3)


@check
def a_recurrent_net():
    net = torch.nn.LSTM(8, 16, 2)
    x = torch.randn(5, 3, 8)
    want, _ = net(x)
    got, _ = net.cuda()(x.cuda())
    close(got, want, rtol=1e-3, atol=1e-3)


@check
def pooling():
    x = torch.randn(2, 3, 16, 16)
    close(F.max_pool2d(x.cuda(), 2), F.max_pool2d(x, 2))
    close(F.adaptive_avg_pool2d(x.cuda(), 1), F.adaptive_avg_pool2d(x, 1), rtol=1e-3)


main()
