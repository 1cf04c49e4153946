# SPDX-License-Identifier: Apache-2.0
"""Matrix products: cuBLAS and cuBLASLt through PyTorch."""

import torch
from subject import check, close, main

torch.backends.cuda.matmul.allow_tf32 = False


@check
def f32_products():
    for m, k, n in ((64, 64, 64), (5, 7, 3), (257, 129, 65), (512, 384, 256)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        close(a.cuda() @ b.cuda(), a @ b, rtol=1e-3, atol=1e-3)


@check
def transposed_operands():
    a, b = torch.randn(70, 40), torch.randn(30, 70)
    close(a.cuda().t() @ b.cuda().t(), a.t() @ b.t(), rtol=1e-3, atol=1e-3)


@check
def batches():
    a, b = torch.randn(6, 33, 20), torch.randn(6, 20, 17)
    close(torch.bmm(a.cuda(), b.cuda()), torch.bmm(a, b), rtol=1e-3, atol=1e-3)


@check
def f64_products():
    a, b = torch.randn(60, 50, dtype=torch.float64), torch.randn(50, 40, dtype=torch.float64)
    close(a.cuda() @ b.cuda(), a @ b, rtol=1e-9, atol=1e-9)


@check
def f16_and_bf16_products():
    for dtype in (torch.float16, torch.bfloat16):
        a, b = torch.randn(64, 96).to(dtype), torch.randn(96, 48).to(dtype)
        close(a.cuda() @ b.cuda(), (a.float() @ b.float()).to(dtype), rtol=2e-2, atol=2e-1)


@check
def complex_products():
    a, b = torch.randn(20, 30, dtype=torch.complex64), torch.randn(30, 10, dtype=torch.complex64)
    close(a.cuda() @ b.cuda(), a @ b, rtol=1e-3, atol=1e-3)


@check
def a_linear_layer_with_bias():
    layer, x = torch.nn.Linear(48, 24), torch.randn(16, 48)
    want = layer(x)
    close(layer.cuda()(x.cuda()), want, rtol=1e-3, atol=1e-3)


@check
def matrix_times_vector():
    a, v = torch.randn(90, 70), torch.randn(70)
    close(a.cuda() @ v.cuda(), a @ v, rtol=1e-3, atol=1e-3)
    close(torch.dot(v.cuda(), v.cuda()), torch.dot(v, v), rtol=1e-3, atol=1e-3)


main()
