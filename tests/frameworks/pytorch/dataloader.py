# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers, forked and spawned, beside an initialised device."""

import multiprocessing
import os
import signal

import torch
from subject import check, exact, fact, main
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((100,), float(index))


class Deadly(Numbers):
    def __getitem__(self, index):
        if index == 37:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Touching(Numbers):
    def __getitem__(self, index):
        return torch.zeros(1, device="cuda")


def _read(context, workers=2):
    torch.zeros(1, device="cuda")
    loader = DataLoader(
        Numbers(),
        batch_size=8,
        num_workers=workers,
        pin_memory=True,
        multiprocessing_context=context,
    )
    got = torch.cat([batch.to("cuda", non_blocking=True).cpu() for batch in loader])
    exact(got, torch.stack([Numbers()[index] for index in range(64)]))


@check
def forked_workers():
    _read("fork")


@check
def spawned_workers():
    _read("spawn")


@check
def eight_forked_workers():
    _read("fork", 8)


@check
def a_killed_worker_is_told_and_the_device_goes_on():
    try:
        for batch in DataLoader(Deadly(), batch_size=4, num_workers=4, pin_memory=True):
            batch.to("cuda", non_blocking=True)
        fact(False, "nobody noticed")
    except RuntimeError as error:
        fact("worker" in str(error), str(error))
    exact(torch.arange(1000.0).cuda(), torch.arange(1000.0))


@check
def cuda_in_a_forked_worker_is_refused():
    torch.zeros(1, device="cuda")
    try:
        next(iter(DataLoader(Touching(), num_workers=1, multiprocessing_context="fork")))
        fact(False, "a forked worker used the device")
    except RuntimeError as error:
        fact("fork" in str(error), str(error))
    exact(torch.arange(10.0).cuda(), torch.arange(10.0))


def _child(queue):
    tensor = torch.randn(500)
    queue.put(torch.equal(tensor.cuda().cpu(), tensor))


@check
def spawned_processes_have_devices_of_their_own():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=_child, args=(queue,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        fact(queue.get(timeout=120), "a child's bytes differ")
        process.join()


if __name__ == "__main__":
    main()
