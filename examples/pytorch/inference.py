# SPDX-License-Identifier: Apache-2.0
"""Batched inference: batches go up and answers come back without waiting, two in flight; one wait a batch, a batch late.

farcall run --endpoint tls://gpu-host:7717 -- python inference.py
"""

import argparse
import time

import torch
from torch import nn


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--device", default="cuda")
    return parser.parse_args()


class Slot:
    """Where one batch's answers land, and the event that says they did."""

    def __init__(self, rows, columns):
        self.answers = torch.empty(rows, columns, pin_memory=True)
        self.landed = torch.cuda.Event()

    def read(self):
        self.landed.synchronize()
        return self.answers.argmax(1)


@torch.inference_mode()
def main():
    args = parse()
    torch.manual_seed(1)
    layers = [nn.Linear(args.width, args.width), nn.GELU()] * 4
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(args.device).eval()
    slots, counts, start = (
        [Slot(args.batch, 10) for _ in range(2)],
        torch.zeros(10, dtype=torch.long),
        time.monotonic(),
    )
    for number in range(args.batches + 1):
        if number < args.batches:
            slot = slots[number % 2]
            batch = torch.randn(args.batch, args.width).pin_memory()
            slot.answers.copy_(model(batch.to(args.device, non_blocking=True)), non_blocking=True)
            slot.landed.record()
        if number > 0:
            counts += slots[(number - 1) % 2].read().bincount(minlength=10)
    seconds = time.monotonic() - start
    print(
        f"{args.batches} batches of {args.batch}: {args.batches * args.batch / seconds:.0f} rows a second"
    )
    print("answers by class:", counts.tolist())


if __name__ == "__main__":
    main()
