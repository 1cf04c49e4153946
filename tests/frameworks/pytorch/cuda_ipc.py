# SPDX-License-Identifier: Apache-2.0
"""Tensors of the device shared between processes by torch.multiprocessing (CUDA IPC)."""

import torch
import torch.multiprocessing as processes
from subject import check, exact, fact, main


def _writes(queue, done):
    tensor = queue.get()
    tensor[:50].copy_(torch.full((50,), 3.0))
    torch.cuda.synchronize()
    del tensor
    done.set()


def _sends(queue, done):
    queue.put(torch.arange(100.0).cuda())
    done.wait(120)


@check
def a_child_writes_into_its_parents_tensor():
    context = processes.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    child = context.Process(target=_writes, args=(queue, done))
    child.start()
    tensor = torch.zeros(100, device="cuda")
    torch.cuda.synchronize()
    queue.put(tensor)
    fact(done.wait(120), "the child did not finish")
    child.join()
    exact(tensor, torch.cat([torch.full((50,), 3.0), torch.zeros(50)]))


@check
def a_parent_reads_its_childs_tensor():
    context = processes.get_context("spawn")
    queue, done = context.Queue(), context.Event()
    child = context.Process(target=_sends, args=(queue, done))
    child.start()
    tensor = queue.get(timeout=120)
    exact(tensor, torch.arange(100.0))
    del tensor
    done.set()
    child.join()


@check
def an_event_crosses_processes():
    event = torch.cuda.Event(interprocess=True)
    event.record()
    fact(len(event.ipc_handle()) == 64, "no handle")


if __name__ == "__main__":
    main()
