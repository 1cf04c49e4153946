# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over NCCL and gloo between two processes that share one remote device."""

import json
import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from subject import EXECUTES, Skip, check, equal, fact, main

RANKS, COUNT = 2, 300000
BASE = torch.arange(COUNT, dtype=torch.float32) % 1000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def collectives(rank):
    """Name to result; what PyTorch needs no kernel of its own for."""
    own = (BASE + rank).cuda()
    results = {}
    x = own.clone()
    dist.all_reduce(x)
    results["all_reduce"] = x
    gathered = torch.empty(RANKS * COUNT, device="cuda")
    dist.all_gather_into_tensor(gathered, own)
    results["all_gather"] = gathered
    part = torch.empty(COUNT // RANKS, device="cuda")
    dist.reduce_scatter_tensor(part, own, op=dist.ReduceOp.MAX)
    results["reduce_scatter"] = part
    x = own.clone()
    dist.broadcast(x, 1)
    results["broadcast"] = x
    exchanged = torch.empty_like(own)
    dist.all_to_all_single(exchanged, own)
    results["all_to_all"] = exchanged
    received = torch.empty_like(own)
    requests = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, own, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    )
    for request in requests:
        request.wait()
    results["send_and_receive"] = received
    dist.barrier(device_ids=[0])
    return {name: tensor.cpu() for name, tensor in results.items()}


def ddp_steps(backend):
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(64, 64).cuda(), device_ids=[0]
    )
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(torch.randn(8, 64).cuda()).square().mean().backward()
        optimiser.step()
    torch.cuda.synchronize()
    return {"backend": backend}


def worker(rank, job, backend, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(0)
    dist.init_process_group(backend, rank=rank, world_size=RANKS)
    if job == "collectives":
        torch.save(collectives(rank), f"{folder}/{rank}.pt")
    else:
        json.dump(ddp_steps(backend), open(f"{folder}/{rank}.json", "w", encoding="utf-8"))
    dist.destroy_process_group()


def run(job, backend):
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, (job, backend, free_port(), folder), RANKS)
        if job == "collectives":
            return [torch.load(f"{folder}/{rank}.pt") for rank in range(RANKS)]
        return [json.load(open(f"{folder}/{rank}.json", encoding="utf-8")) for rank in range(RANKS)]


@check
def collectives_over_nccl():
    for rank, got in enumerate(run("collectives", "nccl")):
        other, half = 1 - rank, COUNT // 2
        equal(got["all_reduce"], BASE * 2 + 1)
        equal(got["all_gather"], torch.cat([BASE, BASE + 1]))
        equal(got["reduce_scatter"], BASE[rank * half : (rank + 1) * half] + 1)
        equal(got["broadcast"], BASE + 1)
        equal(
            got["all_to_all"],
            torch.cat(
                [BASE[rank * half : (rank + 1) * half], BASE[rank * half : (rank + 1) * half] + 1]
            ),
        )
        equal(got["send_and_receive"], BASE + other)


def ddp(backend):
    if EXECUTES and torch.cuda.get_device_name().startswith("Farcall CPU"):
        raise Skip("the optimiser's and the loss's kernels exist as machine code only")
    fact([row["backend"] for row in run("ddp", backend)] == [backend] * RANKS, "a rank is missing")


@check
def ddp_over_nccl():
    ddp("nccl")


@check
def ddp_over_gloo():
    ddp("gloo")


if __name__ == "__main__":  # the ranks import this file
    main()
