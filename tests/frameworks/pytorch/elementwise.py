# SPDX-License-Identifier: Apache-2.0
"""Kernels of PyTorch's own that treat each element by itself."""

import torch
from subject import check, close, equal, main

A, B = torch.randn(100, 33), torch.rand(100, 33) + 0.5


@check
def filling_and_converting():
    equal(torch.ones(9, 9, device="cuda"), torch.ones(9, 9))
    equal(torch.full((77,), 3, device="cuda"), torch.full((77,), 3))
    equal(torch.arange(1000, device="cuda"), torch.arange(1000))
    equal(A.cuda().double(), A.double())
    equal(A.cuda().half(), A.half())


@check
def arithmetic():
    a, b = A.cuda(), B.cuda()
    for operation in (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.atan2):
        close(operation(a, b), operation(A, B))
    close(a + 1.5, A + 1.5)
    close(torch.addcmul(a, a, b, value=0.5), torch.addcmul(A, A, B, value=0.5))


@check
def functions():
    for name in ("exp", "log", "sqrt", "rsqrt", "sin", "tanh", "sigmoid", "erf", "lgamma"):
        close(getattr(B.cuda(), name)(), getattr(B, name)(), rtol=1e-3, atol=1e-4)
    for function in (torch.nn.functional.gelu, torch.nn.functional.silu, torch.relu):
        close(function(A.cuda()), function(A))


@check
def comparisons_and_choices():
    a, b = A.cuda(), B.cuda()
    equal(a > b, A > B)
    equal(torch.where(a > 0, a, b), torch.where(A > 0, A, B))
    equal(a.clamp(-0.5, 0.5), A.clamp(-0.5, 0.5))


@check
def broadcasting_and_strides():
    close(A.cuda() + B.cuda()[0], A + B[0])
    close(A.cuda().t() * 2, A.t() * 2)
    equal(A.cuda().t().contiguous(), A.t().contiguous())
    equal(torch.cat([A.cuda(), B.cuda()], 1), torch.cat([A, B], 1))
    equal(torch.stack([A.cuda(), B.cuda()]), torch.stack([A, B]))


@check
def integers_and_bits():
    x, y = torch.randint(-99, 99, (500,)), torch.randint(1, 99, (500,))
    equal(x.cuda() // y.cuda(), x // y)
    equal(x.cuda() & y.cuda(), x & y)
    equal(x.cuda() << 3, x << 3)


@check
def in_place_and_foreach():
    a = A.cuda()
    a.add_(1).mul_(2)
    close(a, (A + 1) * 2)
    for got in torch._foreach_add([A.cuda(), B.cuda()], 1.0):
        torch.cuda.synchronize()
    close(got, B + 1)


@check
def compiled_at_run_time_by_nvrtc():
    close(torch.special.erfcx(B.cuda()), torch.special.erfcx(B), rtol=1e-3)


main()
