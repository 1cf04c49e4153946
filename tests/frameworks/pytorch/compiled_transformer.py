# SPDX-License-Identifier: Apache-2.0
"""A transformer whose forward pass, gradients and optimiser are compiled (torch.compile: Inductor and Triton) and trained: the
loss of each step and the weights at the end against PyTorch's own CPU."""

import math

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from subject import EXECUTES, check, close, fact, main, note
from torch import nn

# Inductor itself would run PyTorch's own kernels, which are machine code alone: to time padded products, to make constants.
inductor.shape_padding = inductor.joint_graph_constant_folding = False
inductor.deterministic = True  # it chooses among fewer forms of a kernel by timing them
torch.backends.cuda.matmul.allow_tf32 = False
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, STEPS, BATCHES = 40, 16, 32, 2, 2, 50, 5
torch.manual_seed(6)
TOKENS = torch.randint(0, VOCABULARY, (BATCHES, 4, LENGTH + 1))


def product(a, b):
    """a times b transposed, compiled as the rest is: of cuBLAS's kernels for the one profile that Triton knows and cuBLAS has PTX
    for, 12.1, some are machine code."""
    return (a[..., :, None, :] * b[..., None, :, :]).sum(-1)


class Linear(nn.Linear):
    def forward(self, x):
        y = product(x, self.weight)
        return y if self.bias is None else y + self.bias


class Attention(nn.Module):
    """By plain mathematics: what PyTorch has for it at once is machine code alone."""

    def __init__(self):
        super().__init__()
        # A bias of the keys has no gradient but rounding's, of which Adam makes whole steps.
        self.into, self.out = Linear(WIDTH, 3 * WIDTH, bias=False), Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.into(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        scores = product(q, k) / math.sqrt(WIDTH // HEADS)
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out(
            product(weights, v.transpose(-1, -2)).transpose(1, 2).reshape(batch, length, WIDTH)
        )


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.before, self.between = (
            Attention(),
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH),
        )
        self.wide = nn.Sequential(Linear(WIDTH, 4 * WIDTH), nn.GELU(), Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.wide(self.between(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm = (
            nn.Sequential(*(Block() for _ in range(LAYERS))),
            nn.LayerNorm(WIDTH),
        )
        self.head = Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        return self.head(self.norm(self.blocks(x)))


def made(device):
    torch.manual_seed(7)
    return Transformer().to(device)


def trained(device, compiled):
    model = made(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    loss_of = compiled(
        lambda tokens: F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    )
    update = compiled(optimiser.step)
    batches, one, losses = TOKENS.to(device), torch.ones(()).to(device), []
    for i in range(STEPS):
        loss = loss_of(batches[i % BATCHES])
        loss.backward(one)
        update()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.detach().cpu())
    return torch.stack(losses), [parameter.detach() for parameter in model.parameters()]


@check
def a_forward_pass():
    model = made("cpu")
    with torch.no_grad():
        want = model(TOKENS[0, :, :-1])
        close(
            torch.compile(made("cuda"), fullgraph=True)(TOKENS[0].cuda()[:, :-1]),
            want,
            rtol=1e-3,
            atol=1e-4,
        )


@check
def training_with_adamw():
    losses, weights = trained("cpu", lambda function: function)
    fact(
        losses[-BATCHES:].mean() < 0.7 * losses[:BATCHES].mean(),
        f"the host does not learn: {losses}",
    )
    got_losses, got_weights = trained("cuda", torch.compile)
    close(got_losses, losses, rtol=1e-3, atol=0)
    for got, want in zip(got_weights, weights):
        close(got, want, rtol=1e-3, atol=1e-4)
    if EXECUTES:
        apart = ((got_losses - losses).abs() / losses).max().item()
        note(
            "transformer",
            f"{STEPS} steps, loss {got_losses[0]:.3f} to {got_losses[-1]:.3f}, at most {apart:.1e} from the host's",
        )
    else:
        fact(
            not torch.allclose(got_losses, losses, rtol=1e-3),
            "where no kernel runs, the losses are the host's",
        )


main()
