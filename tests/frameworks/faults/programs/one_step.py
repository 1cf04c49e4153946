# SPDX-License-Identifier: Apache-2.0
"""One training step, where much of a machine may be missing; what goes up must come home."""

import torch

values = torch.arange(4096.0)
assert torch.equal(values.cuda().cpu(), values)
model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1)).cuda()
optimiser = torch.optim.AdamW(model.parameters())
loss = model(torch.randn(8, 32).pin_memory().to("cuda", non_blocking=True)).pow(2).mean()
loss.backward()
optimiser.step()
loss.item()
assert sum(parameter.grad is not None for parameter in model.parameters()) == 4
print("right")
