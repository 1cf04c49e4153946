# SPDX-License-Identifier: Apache-2.0
"""Eight DataLoader workers, forked from a process that has a session, killed at random; the session goes on.

workers.py SEED [--persistent]
"""

import os
import random
import signal
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

random.seed(int(sys.argv[1]))
persistent = "--persistent" in sys.argv


class Numbers(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((1024,), float(index))


def session_is_whole():
    values = torch.arange(1 << 16)
    assert torch.equal(values.cuda().cpu(), values)
    assert torch.equal(kept.cpu(), torch.arange(1 << 20)), "memory of the session changed"


def kill_some(loader_pids):
    for pid in random.sample(loader_pids, random.randint(1, len(loader_pids))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def epoch(loader, fatal_batch):
    """Whether it was noticed that workers were killed: PyTorch's handler of SIGCHLD raises wherever the program is."""
    try:
        iterator = iter(loader)
        pids = [worker.pid for worker in iterator._workers]
        for number, batch in enumerate(iterator):
            if number == fatal_batch:
                kill_some(pids)
            there = batch.to("cuda", non_blocking=True)
            assert torch.equal(
                there.cpu()[:, 0], torch.arange(8.0 * number, 8.0 * number + 8)
            ), number
    except (
        RuntimeError,
        OSError,
    ) as error:  # from the loader, its handler, or its thread that pins
        assert "worker" in str(error) or "pin memory" in str(error).lower(), str(error)
        return True
    return False


kept = torch.arange(1 << 20).cuda()
noticed = 0
for _ in range(4):
    loader = DataLoader(
        Numbers(), batch_size=8, num_workers=8, pin_memory=True, persistent_workers=persistent
    )
    if persistent:
        assert not epoch(loader, None)  # the same workers serve the epoch in which they die
    noticed += epoch(loader, random.randrange(2, 20))
    session_is_whole()
    del loader
assert noticed, "no epoch met a killed worker"
assert not epoch(DataLoader(Numbers(), batch_size=8, num_workers=8, pin_memory=True), None)
session_is_whole()
print("right")
