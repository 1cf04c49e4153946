# SPDX-License-Identifier: Apache-2.0
"""torch.compile: Inductor and Triton. They hand the driver machine code unless told otherwise; told so by `farcall run`, PTX,
which the CPU device computes. What stays outside a compiled function is PyTorch's own kernel."""

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from subject import check, close, main

# Inductor itself would run PyTorch's own kernels: to time padded products, to make constants.
inductor.shape_padding = inductor.joint_graph_constant_folding = False
torch.backends.cuda.matmul.allow_tf32 = False
A = torch.randn(64, 200)


@check
def elementwise_code_is_compiled():
    x = torch.randn(2048)
    for function in (
        lambda t: torch.sin(t) * 2 + t,
        lambda t: torch.where(t > 0, t.exp(), F.gelu(t)).clamp(-3, 3),
    ):
        close(torch.compile(function)(x.cuda()), function(x), rtol=1e-3)


@check
def reductions_are_compiled():
    for function in (
        lambda t: t.sum(1),
        lambda t: t.softmax(1),
        lambda t: F.layer_norm(t, (200,)),
        lambda t: t.var(),
    ):
        close(torch.compile(function)(A.cuda()), function(A), rtol=1e-3, atol=1e-4)


@check
def reductions_over_rows_are_compiled():  # Triton turns the tile by ldmatrix or stmatrix
    close(torch.compile(lambda t: t.amax(0))(A.cuda()), A.amax(0), rtol=0, atol=0)


@check
def indexing_is_compiled():
    rows = torch.randint(0, 64, (30,))

    def function(table, rows):
        return torch.cat([table[rows].flip(1), F.embedding(rows, table).roll(3, 1)])

    close(torch.compile(function)(A.cuda(), rows.cuda()), function(A, rows), rtol=0, atol=0)


@check
def a_layer_and_its_gradient_are_compiled():
    layer, x, slope = (
        torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()),
        torch.randn(8, 16),
        torch.randn(8, 16),
    )
    want = layer(x)
    want.backward(slope)
    slopes = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad(set_to_none=True)
    layer.cuda()
    got = torch.compile(layer)(x.cuda())
    close(got, want, rtol=1e-3, atol=1e-3)
    got.backward(slope.cuda())
    for parameter, grad in zip(layer.parameters(), slopes):
        close(parameter.grad, grad, rtol=1e-3, atol=1e-3)


def _product(a, b):
    """Compiled too: cuBLAS's kernels for the one profile that Triton knows, 12.1, are partly machine code."""
    return (a[:, :, None] * b[None]).sum(1)


@check
def attention_is_compiled():
    def attention(q, k, v):
        scores = _product(q, k.t()) / q.shape[-1] ** 0.5
        mask = torch.ones(q.shape[0], q.shape[0], dtype=torch.bool, device=q.device).tril()
        return _product(scores.masked_fill(~mask, float("-inf")).softmax(-1), v)

    parts = [torch.randn(32, 16) for _ in range(3)]
    close(
        torch.compile(attention)(*(part.cuda() for part in parts)),
        attention(*parts),
        rtol=1e-3,
        atol=1e-4,
    )


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (
            torch.nn.Parameter(torch.randn(shape) / 4) for shape in ((12, 32), (32, 5))
        )
        self.bias, self.norm = torch.nn.Parameter(torch.zeros(5)), torch.nn.LayerNorm(32)

    def forward(self, x):
        return _product(self.norm(torch.relu(_product(x, self.first))), self.second) + self.bias


def _trained(device, compiled):
    torch.manual_seed(4)
    layers, x, y = (
        Layers().to(device),
        torch.randn(16, 12).to(device),
        torch.randint(0, 5, (16,)).to(device),
    )
    loss_of = compiled(lambda x, y: F.cross_entropy(layers(x), y))
    descended = compiled(
        lambda values, slopes: [value - 0.1 * slope for value, slope in zip(values, slopes)]
    )
    losses, parameters, one = [], list(layers.parameters()), torch.ones(()).to(device)
    for _ in range(4):
        loss = loss_of(x, y)
        loss.backward(one)
        for parameter, value in zip(
            parameters, descended([p.detach() for p in parameters], [p.grad for p in parameters])
        ):
            parameter.data.copy_(value)
            parameter.grad = None
        losses.append(loss.detach().cpu())
    return torch.stack(losses), layers.first.detach()


@check
def training_steps_are_compiled():
    losses, weight = _trained("cpu", lambda function: function)
    got_losses, got_weight = _trained("cuda", torch.compile)
    close(got_losses, losses, rtol=1e-3, atol=1e-4)
    close(got_weight, weight, rtol=1e-3, atol=1e-4)


@check
def with_cuda_graphs():
    function = torch.compile(lambda t: (t * 2).relu(), mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(512)
        close(function(x.cuda()), (x * 2).relu())


main()
