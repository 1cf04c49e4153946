# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT on Shakespeare's sonnets, letter by letter, and reads one value a step: the loss.

farcall run --endpoint tls://gpu-host:7717 -- python gpt.py            eager
farcall run --endpoint tls://gpu-host:7717 -- python gpt.py --graph    the whole step captured once, then replayed
"""

import argparse
import pathlib
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, time_steps, width = x.shape
        q, k, v = (
            part.view(batch, time_steps, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.before(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time_steps, width))
        return x + self.mlp(self.after(x))


class Gpt(nn.Module):
    def __init__(self, letters, block, width=128, heads=4, layers=4):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        self.register_buffer("places", torch.arange(block), persistent=False)

    def forward(self, tokens):
        x = self.letter(tokens) + self.place(self.places[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Text:
    def __init__(self, path, block, batch):
        text = path.read_text(encoding="utf-8")
        self.letters = sorted(set(text))
        self.tokens = torch.tensor([self.letters.index(letter) for letter in text])
        self.block, self.batch = block, batch

    def draw(self):
        """Inputs and what comes next, in page-locked memory, so that the copy to the device need not wait."""
        starts = torch.randint(len(self.tokens) - self.block - 1, (self.batch, 1))
        window = self.tokens[starts + torch.arange(self.block + 1)]
        return window[:, :-1].contiguous().pin_memory(), window[:, 1:].contiguous().pin_memory()


class Trainer:
    def __init__(self, args, text):
        self.device = torch.device(args.device)
        self.model = Gpt(len(text.letters), args.block, args.width, layers=args.layers).to(
            self.device
        )
        self.optimiser = torch.optim.AdamW(self.model.parameters(), 1e-3, capturable=args.graph)
        self.inputs = [
            torch.zeros(args.batch, args.block, dtype=torch.long, device=self.device)
            for _ in range(2)
        ]
        self.graph = None

    def step(self):
        tokens, targets = self.inputs
        self.optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimiser.step()
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step()

    def train(self, batch):
        for place, values in zip(self.inputs, batch):
            place.copy_(values, non_blocking=True)
        if self.graph is None:
            return self.step()
        self.graph.replay()
        return self.loss


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--graph", action="store_true", help="capture a step and replay it")
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
    text = Text(pathlib.Path(__file__).with_name("sonnets.txt"), args.block, args.batch)
    trainer = Trainer(args, text)
    if args.graph:
        trainer.capture()
    start, took = time.monotonic(), []
    for step in range(1, args.steps + 1):
        begun = time.monotonic()
        if args.range and step == args.range[0] + 1:
            torch.cuda.profiler.start()
        loss = trainer.train(text.draw()).item()
        took.append(time.monotonic() - begun)
        if args.range and step == args.range[1]:
            torch.cuda.profiler.stop()
        if step == 1 or step % 10 == 0:
            print(f"step {step:4}  loss {loss:.4f}", flush=True)
    seconds = time.monotonic() - start
    median = statistics.median(took) * 1000
    each = seconds / args.steps * 1000
    print(f"{args.steps} steps, {each:.1f} ms each, median {median:.2f} ms", end="")
    if trainer.device.type == "cuda":
        print(
            f", {torch.cuda.max_memory_reserved() >> 20} MiB reserved at most on {torch.cuda.get_device_name()}"
        )


if __name__ == "__main__":
    main()
