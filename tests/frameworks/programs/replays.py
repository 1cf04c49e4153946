# SPDX-License-Identifier: Apache-2.0
"""Captures a training step and replays it N times between torch.cuda.profiler.start and stop."""

import sys

import torch

model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8)
).cuda()
optimiser = torch.optim.AdamW(model.parameters(), capturable=True)
x = torch.randn(32, 64).cuda()


def step():
    optimiser.zero_grad(set_to_none=True)
    loss = model(x).pow(2).mean()
    loss.backward()
    optimiser.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
graph.replay()
torch.cuda.synchronize()
torch.cuda.profiler.start()
for _ in range(int(sys.argv[1])):
    graph.replay()
torch.cuda.profiler.stop()
torch.cuda.synchronize()
