# SPDX-License-Identifier: Apache-2.0
"""Random numbers: Philox on the device; the state is the host's."""

import torch
from subject import EXECUTES, check, equal, fact, main


@check
def a_seed_repeats():
    torch.cuda.manual_seed(5)
    first = torch.rand(1000, device="cuda").cpu()
    torch.cuda.manual_seed(5)
    equal(torch.rand(1000, device="cuda"), first)
    if EXECUTES:
        fact(0 <= first.min() and first.max() < 1 and abs(first.mean() - 0.5) < 0.05, "not uniform")


@check
def states_are_kept():
    state = torch.cuda.get_rng_state()
    first = torch.randn(500, device="cuda").cpu()
    torch.cuda.set_rng_state(state)
    equal(torch.randn(500, device="cuda"), first)


@check
def distributions():
    for make in (
        lambda: torch.randint(0, 9, (100,), device="cuda"),
        lambda: torch.randperm(100, device="cuda"),
        lambda: torch.empty(100, device="cuda").exponential_(),
        lambda: torch.bernoulli(torch.full((100,), 0.5).cuda()),
    ):
        fact(make().cpu().shape == (100,), "shape")


@check
def dropout():
    x = torch.ones(10000).cuda()
    y = torch.nn.functional.dropout(x, 0.5).cpu()
    if EXECUTES:
        fact(0.4 < (y == 0).float().mean() < 0.6, "not half")


main()
