# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet to tell shapes apart that it draws itself, and reads one value a step: the loss.

farcall run --endpoint tls://gpu-host:7717 -- python cnn.py
farcall run --endpoint tls://gpu-host:7717 -- python cnn.py --blocks 2 2 2 2 --width 64    ResNet-18's stages
farcall run --endpoint tls://gpu-host:7717 -- python cnn.py --workers 4 --amp
    drawn by worker processes; mixed precision
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

SHAPES = ("disc", "ring", "square", "cross")


class Drawings(Dataset):
    """Noisy 32 x 32 pictures; the same index is the same picture."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(index)
        kind = index % len(SHAPES)
        x0, y0, size = (
            torch.rand(3, generator=chance) * torch.tensor([8.0, 8.0, 4.0])
            + torch.tensor([12.0, 12.0, 5.0])
        ).tolist()
        y, x = torch.meshgrid(torch.arange(32.0) - y0, torch.arange(32.0) - x0, indexing="ij")
        away = (x * x + y * y).sqrt()
        drawn = (
            away < size,
            (away - size).abs() < 1.5,
            torch.maximum(x.abs(), y.abs()) < size,
            torch.minimum(x.abs(), y.abs()) < 1.5,
        )[kind]
        return drawn.float() + 0.3 * torch.randn(3, 32, 32, generator=chance), kind


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
        self.short = (
            nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.short(x))


def resnet(blocks, width):
    """As for 32 x 32 pictures: a 3 x 3 stem, then stages of residual blocks, each but the first
    halving the picture and doubling the width."""
    layers, inputs = (
        [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()],
        width,
    )
    for stage, count in enumerate(blocks):
        for block in range(count):
            layers.append(Residual(inputs, width << stage, 2 if stage and not block else 1))
            inputs = width << stage
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, len(SHAPES))
    )


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--blocks", type=int, nargs="+", default=[2, 2, 2], help="residual blocks of each stage"
    )
    parser.add_argument("--width", type=int, default=32, help="channels of the first stage")
    parser.add_argument("--workers", type=int, default=0, help="processes that draw")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--amp", action="store_true", help="mixed precision (bfloat16)")
    parser.add_argument(
        "--range",
        type=int,
        nargs=2,
        metavar=("FROM", "TO"),
        help="mark these steps with cudaProfilerStart and Stop: FARCALL_STATS counts them apart",
    )
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(1)
    loader = DataLoader(
        Drawings(args.steps * args.batch),
        args.batch,
        num_workers=args.workers,
        pin_memory=args.device == "cuda",
    )
    model = resnet(args.blocks, args.width).to(args.device)
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    start, took = time.monotonic(), []
    for step, (pictures, kinds) in enumerate(loader, 1):
        begun = time.monotonic()  # after the pictures were drawn
        if args.range and step == args.range[0] + 1:
            torch.cuda.profiler.start()
        pictures, kinds = (part.to(args.device, non_blocking=True) for part in (pictures, kinds))
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.amp):
            loss = F.cross_entropy(model(pictures), kinds)
        loss.backward()
        optimiser.step()
        value = loss.item()
        took.append(time.monotonic() - begun)
        if args.range and step == args.range[1]:
            torch.cuda.profiler.stop()
        if step == 1 or step % 10 == 0:
            print(f"step {step:4}  loss {value:.4f}", flush=True)
    seconds = time.monotonic() - start
    held = (
        f", {torch.cuda.max_memory_reserved() >> 20} MiB reserved at most on {torch.cuda.get_device_name()}"
        if args.device == "cuda"
        else ""
    )
    name, median = f"ResNet-{2 + 2 * sum(args.blocks)}", statistics.median(took) * 1000
    print(
        f"{args.steps} steps of {name}, {seconds / args.steps * 1000:.1f} ms each, "
        f"median {median:.2f} ms{held}"
    )


if __name__ == "__main__":
    main()
