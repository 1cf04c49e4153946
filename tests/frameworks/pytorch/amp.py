# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision."""

import torch
from subject import EXECUTES, check, close, fact, main


def _layers():
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
    ), torch.randn(16, 32)


@check
def autocast_changes_types():
    layers, x = _layers()
    want = layers(x)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            got = layers.cuda()(x.cuda())
        fact(got.dtype == dtype, f"{got.dtype}")
        close(got.float(), want, rtol=5e-2, atol=5e-2)
        layers.cpu()


def _stepped(layers, x):
    """The same two steps in single precision on the host."""
    optimiser = torch.optim.SGD(layers.parameters(), 0.1)
    for _ in range(2):
        optimiser.zero_grad()
        layers(x).pow(2).mean().backward()
        optimiser.step()
    return layers[0].weight.detach()


@check
def a_scaled_step_is_taken():
    layers, x = _layers()
    before = layers[0].weight.detach().clone()
    want = _stepped(layers, x)
    layers, x = _layers()
    layers.cuda()
    optimiser, scaler = (
        torch.optim.SGD(layers.parameters(), 0.1),
        torch.amp.GradScaler("cuda", init_scale=8.0),
    )
    for _ in range(2):
        optimiser.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = layers(x.cuda()).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    after = layers[0].weight.detach().cpu()
    close(after, want, rtol=5e-2, atol=2e-3)
    if EXECUTES:
        fact(not torch.equal(after, before), "no step was taken")


main()
