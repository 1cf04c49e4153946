# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: captured by hand, by make_graphed_callables, replayed on new input, with their own memory."""
import torch
from subject import check, close, equal, exact, fact, main


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
    layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)).cuda()
    optimiser = torch.optim.AdamW(layers.parameters(), 0.01, capturable=True)
    x = torch.randn(8, 16).cuda()

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss = layers(x).pow(2).mean()
        loss.backward()
        optimiser.step()
        return loss
    _warm(step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(5):
        graph.replay()
    fact(loss.cpu().shape == (), "no loss")


@check
def random_numbers_are_captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.rand(64, device="cuda")
    graph.replay()
    graph.replay()
    fact(y.cpu().shape == (64,), "shape")


@check
def graphed_callables_train():
    layer = torch.nn.Linear(12, 6).cuda()
    graphed = torch.cuda.make_graphed_callables(layer, (torch.randn(4, 12).cuda(),))
    graphed(torch.randn(4, 12).cuda()).sum().backward()
    fact(layer.weight.grad.cpu().shape == (6, 12), "no gradient")


@check
def graphs_share_a_pool_and_are_freed():
    pool = torch.cuda.graph_pool_handle()
    graphs = []
    a = torch.randn(64, 64).cuda()
    for _ in range(4):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            a @ a
        graphs.append(graph)
    for graph in graphs:
        graph.replay()
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
