# SPDX-License-Identifier: Apache-2.0
"""Forks of a process that has a session: they use it, exit in every way, are killed; the parent's session goes on."""

import os
import signal
import sys

import torch

kept = torch.arange(1 << 20).cuda()
pinned = torch.arange(1 << 16).pin_memory()


def use_refused():
    try:
        kept.cpu()
    except RuntimeError:
        return
    os._exit(9)


def collected():
    global kept, pinned
    del kept, pinned  # destructors of PyTorch's that call CUDA in the child


EXITS = [
    lambda: os._exit(0),
    lambda: sys.exit(0),
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    os.abort,
    use_refused,
    collected,
    lambda: os.execv("/bin/true", ["true"]),
]
for number, leave in enumerate(EXITS * 3):
    child = os.fork()
    if child == 0:
        leave()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not (
        os.WIFEXITED(status) and os.WEXITSTATUS(status) == 9
    ), "the child used its parent's session"
    there = pinned.to("cuda", non_blocking=True)
    assert torch.equal(there.cpu(), pinned), f"after child {number}"
assert torch.equal(kept.cpu(), torch.arange(1 << 20))
print("right")
