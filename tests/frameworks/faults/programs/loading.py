# SPDX-License-Identifier: Apache-2.0
"""Batches of forked DataLoader workers go up from page-locked memory and come home; pauses in the middle of an epoch.

loading.py [--persistent] [WORKERS]
"""

import sys

import torch
from pause import pause
from torch.utils.data import DataLoader, Dataset

persistent = "--persistent" in sys.argv
workers = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 4


class Numbers(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((4096,), float(index))


torch.zeros(1, device="cuda")  # the workers are forked from a process that has a session
loader = DataLoader(
    Numbers(), batch_size=8, num_workers=workers, pin_memory=True, persistent_workers=persistent
)
for epoch in range(2):
    for number, batch in enumerate(loader):
        if number == 10:
            pause(f"epoch {epoch}")
        there = batch.to("cuda", non_blocking=True)
        assert torch.equal(
            there.cpu(), torch.arange(8 * number, 8 * number + 8.0)[:, None].expand(8, 4096)
        ), number
print("right")
