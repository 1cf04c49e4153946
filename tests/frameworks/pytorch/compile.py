# SPDX-License-Identifier: Apache-2.0
"""torch.compile: Inductor and Triton, which hand the driver machine code unless told otherwise."""
import torch
from subject import check, close, main


@check
def elementwise_code_is_compiled():
    x = torch.randn(2048)
    close(torch.compile(lambda t: torch.sin(t) * 2 + t)(x.cuda()), torch.sin(x) * 2 + x, rtol=1e-3)


@check
def a_layer_and_its_gradient_are_compiled():
    layer, x = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()), torch.randn(8, 16)
    want = layer(x)
    layer.cuda()
    got = torch.compile(layer)(x.cuda())
    close(got, want, rtol=1e-3, atol=1e-3)
    got.sum().backward()
    torch.cuda.synchronize()


@check
def with_cuda_graphs():
    function = torch.compile(lambda t: (t * 2).relu(), mode="reduce-overhead")
    x = torch.randn(512)
    for _ in range(4):
        close(function(x.cuda()), (x * 2).relu())


main()
