# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: captured by hand, by make_graphed_callables, replayed on new input, with their own memory."""

import copy

import torch
from subject import EXECUTES, check, close, equal, exact, fact, main


def _warm(function):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)


@check
def a_product_is_replayed_on_new_input():
    x, w = torch.randn(32, 32), torch.randn(32, 32)
    a, b = x.cuda(), w.cuda()
    _warm(lambda: a @ b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = a @ b
    for _ in range(3):
        x = torch.randn(32, 32)
        a.copy_(x)
        graph.replay()
        close(y, x @ w, rtol=1e-3, atol=1e-3)


@check
def copies_and_zeros_are_captured():
    x = torch.randn(1000)
    a, b = x.cuda(), torch.empty(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        b.copy_(a)
        a.zero_()
    graph.replay()
    exact(b, x)
    equal(a, torch.zeros(1000))


@check
def a_training_step_is_captured():
    here = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    there, x = copy.deepcopy(here).cuda(), torch.randn(8, 16)

    def step_of(layers, x, **more):
        optimiser = torch.optim.AdamW(layers.parameters(), 0.01, **more)

        def step():
            optimiser.zero_grad(set_to_none=True)
            loss = layers(x).pow(2).mean()
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    step, eager = step_of(there, x.cuda(), capturable=True), step_of(here, x)
    _warm(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(5):
        graph.replay()
    want = [eager() for _ in range(8)]  # three to warm, five replayed
    close(loss, want[-1], rtol=1e-2, atol=1e-4)
    close(there[0].weight, here[0].weight.detach(), rtol=1e-2, atol=1e-3)


@check
def random_numbers_are_captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.rand(64, device="cuda")
    graph.replay()
    first = y.cpu()
    graph.replay()
    second = y.cpu()
    fact(first.shape == second.shape == (64,), "shape")
    if EXECUTES:
        fact(
            not torch.equal(first, second) and 0 <= second.min() and second.max() < 1,
            "a replay draws no new numbers",
        )


@check
def graphed_callables_train():
    here, x, slope = torch.nn.Linear(12, 6), torch.randn(4, 12), torch.randn(4, 6)
    there = copy.deepcopy(here).cuda()
    graphed = torch.cuda.make_graphed_callables(there, (torch.randn(4, 12).cuda(),))
    got, want = graphed(x.cuda()), here(x)
    got.backward(slope.cuda())
    want.backward(slope)
    close(got, want.detach(), rtol=1e-3, atol=1e-4)
    close(there.weight.grad, here.weight.grad, rtol=1e-3, atol=1e-4)


@check
def graphs_share_a_pool_and_are_freed():
    pool = torch.cuda.graph_pool_handle()
    graphs, x = [], torch.randn(64, 64)
    a = x.cuda()
    _warm(lambda: a @ a)
    for _ in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            product = a @ a
        graphs.append((graph, product))
    for graph, product in graphs:
        graph.replay()
        close(product, x @ x, rtol=1e-3, atol=1e-3)
    for graph, _ in graphs:
        graph.reset()
    torch.cuda.synchronize()


@check
def what_capture_forbids_ends_it_and_no_more():
    a = torch.randn(4, 4).cuda()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            a.cpu()
        fact(False, "a copy to the host was captured")
    except RuntimeError:
        pass
    x = torch.randn(5)
    exact(x.cuda(), x)


main()
