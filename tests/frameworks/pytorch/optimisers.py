# SPDX-License-Identifier: Apache-2.0
"""Optimisers against their steps on the CPU: single, foreach, fused, capturable."""

import torch
from subject import check, close, main


def _steps(make, device, steps=3):
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x = torch.randn(10, 6)
    layers, x = layers.to(device), x.to(device)
    optimiser = make(layers.parameters())
    for _ in range(steps):
        optimiser.zero_grad()
        layers(x).pow(2).mean().backward()
        optimiser.step()
    return layers[0].weight


def _same(make, make_there=None):
    close(_steps(make_there or make, "cuda"), _steps(make, "cpu"), rtol=1e-3, atol=1e-4)


@check
def sgd():
    _same(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True))
    _same(lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, fused=True))


@check
def adam_single_foreach_fused():
    for how in ({"foreach": False}, {"foreach": True}, {"fused": True}, {"capturable": True}):
        _same(
            lambda p: torch.optim.Adam(p, 0.01), lambda p, how=how: torch.optim.Adam(p, 0.01, **how)
        )


@check
def adamw():
    _same(lambda p: torch.optim.AdamW(p, 0.01), lambda p: torch.optim.AdamW(p, 0.01, fused=True))


@check
def others():
    for kind in (
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        torch.optim.Adadelta,
        torch.optim.NAdam,
        torch.optim.RAdam,
        torch.optim.Adamax,
    ):
        _same(lambda p, kind=kind: kind(p, 0.01))


@check
def gradients_are_clipped():
    def clipped(device):
        torch.manual_seed(2)
        layer = torch.nn.Linear(5, 5).to(device)
        layer(torch.ones(3, 5, device=device)).sum().backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
        return layer.weight.grad

    close(clipped("cuda"), clipped("cpu"), rtol=1e-3)


main()
