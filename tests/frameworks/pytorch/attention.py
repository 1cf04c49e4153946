# SPDX-License-Identifier: Apache-2.0
"""Scaled dot-product attention by each backend, and a layer of it."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from subject import Skip, check, close, main

Q, K, V = (torch.randn(2, 4, 64, 32) for _ in range(3))


def _by(backend, dtype=torch.float16, tolerance=3e-2):
    q, k, v = (t.to(dtype) for t in (Q, K, V))
    want = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True).to(dtype)
    with sdpa_kernel(backend):
        try:
            got = F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda(), is_causal=True)
        except RuntimeError as error:
            if "No available kernel" in str(error):
                raise Skip(
                    f"PyTorch has no such kernel for this device ({torch.cuda.get_device_capability()})"
                ) from None
            raise
    close(got, want, rtol=tolerance, atol=tolerance)


@check
def by_plain_mathematics():
    _by(SDPBackend.MATH, torch.float32, 1e-3)


@check
def by_flash_attention():
    _by(SDPBackend.FLASH_ATTENTION)


@check
def by_memory_efficient_attention():
    _by(SDPBackend.EFFICIENT_ATTENTION)


@check
def by_cudnn():
    _by(SDPBackend.CUDNN_ATTENTION)


@check
def gradients():
    q, k, v = (t.clone().requires_grad_() for t in (Q, K, V))
    F.scaled_dot_product_attention(q, k, v).sum().backward()
    a, b, c = (t.detach().cuda().requires_grad_() for t in (Q, K, V))
    F.scaled_dot_product_attention(a, b, c).sum().backward()
    close(a.grad, q.grad, rtol=1e-2, atol=1e-3)


@check
def a_multi_head_layer():
    layer, x = torch.nn.MultiheadAttention(32, 4, batch_first=True), torch.randn(3, 10, 32)
    want, _ = layer(x, x, x)
    got, _ = layer.cuda()(x.cuda(), x.cuda(), x.cuda())
    close(got, want, rtol=1e-3, atol=1e-3)


main()
