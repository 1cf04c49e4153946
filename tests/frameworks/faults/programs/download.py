# SPDX-License-Identifier: Apache-2.0
"""Copies 100 MiB home, into pageable or page-locked memory, again and again; the bytes must be those that went out.

download.py pageable|pinned TIMES
"""

import sys

import torch
from pause import pause

kind, times = sys.argv[1], int(sys.argv[2])
source = torch.arange(100 * (1 << 20) // 8)
there = source.cuda()
torch.cuda.synchronize()
pause("download")
for _ in range(times):
    home = torch.zeros_like(source, pin_memory=kind == "pinned")
    home.copy_(there, non_blocking=kind == "pinned")
    torch.cuda.synchronize()
    assert torch.equal(home, source), "the bytes that came back are not those that went out"
print("right")
