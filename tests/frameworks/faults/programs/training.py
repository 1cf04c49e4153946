# SPDX-License-Identifier: Apache-2.0
"""Trains by matrix products alone, which PyTorch leaves to cuBLAS: every device that executes gives values.

training.py eager|capture STEPS      pauses in a step, or inside torch.cuda.graph
"""

import sys

import torch
from pause import pause

mode, steps = sys.argv[1], int(sys.argv[2])
EXECUTES = "dry" not in torch.cuda.get_device_name()
torch.manual_seed(3)
x, y, weight = torch.randn(256, 64), torch.randn(256, 16), torch.zeros(64, 16)


def step(x, y, weight, residual, at=None):
    """One step of descent on |x w - y|^2."""
    torch.addmm(y, x, weight, beta=-1, out=residual)
    if at:
        pause(at)
    torch.addmm(weight, x.T, residual, alpha=-1e-3, out=weight)


device = [tensor.cuda() for tensor in (x, y, weight, torch.zeros(256, 16))]
host = [x, y, weight, torch.zeros(256, 16)]
seen = []
if mode == "eager":
    for number in range(steps):
        step(*device, at="step" if number == steps // 2 else None)
        seen.append(device[3][0].cpu())
else:
    torch.mm(device[0], device[2])  # cuBLAS takes its workspace before a capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(*device, at="capture")
    for number in range(steps):
        if number == steps // 2:
            pause("replay")
        graph.replay()
        seen.append(device[3][0].cpu())
for number in range(steps):
    step(*host)
    if EXECUTES:
        torch.testing.assert_close(seen[number], host[3][0], rtol=1e-4, atol=1e-4)
if EXECUTES:
    torch.testing.assert_close(device[2].cpu(), host[2], rtol=1e-4, atol=1e-4)
assert torch.equal(device[0].cpu(), x) and len(seen) == steps
print("right")
