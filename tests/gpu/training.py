# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch: natively, through the server, and there with our libraries in place of NVIDIA's; the ratios."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness import Results, Server, each_way, run

PROGRAMS = Path(__file__).resolve().parents[2] / "examples/pytorch"
# Small steps show what a launch costs, large ones what the link does beside work; a captured step is one launch.
CASES = {
    "gpt": ["gpt.py", "--steps", "200"],
    "gpt, captured": ["gpt.py", "--steps", "200", "--graph"],
    "gpt, large": ["gpt.py", "--steps", "60", "--width", "768", "--layers", "8", "--block", "256"],
    "cnn": ["cnn.py", "--steps", "60"],
}
ROUNDS = 2
LIMIT_S = 60


def milliseconds_a_step(output: str) -> float | None:
    found = re.search(r" ([0-9.]+) ms each", output)
    return float(found.group(1)) if found else None


def run_all(results: Results, server: Server) -> None:
    code, _, text = run(
        [sys.executable, "-c", "import torch"],
        results.work / "training-torch.log",
        results.left(60),
    )
    if code or not PROGRAMS.is_dir():
        results.add(
            "training",
            "PyTorch",
            "native",
            "skip",
            note=text.strip()[-200:] or "not brought: examples/pytorch",
        )
        return
    for name, (program, *flags) in CASES.items():
        best: dict[str, float] = {}
        for at in range(ROUNDS):
            outputs = each_way(
                results,
                server,
                "training",
                f"{name} {at + 1}",
                [sys.executable, PROGRAMS / program, *flags],
                LIMIT_S,
                thin=True,
            )
            for where, output in outputs.items():
                took = milliseconds_a_step(output)
                if took:
                    best[where] = min(took, best.get(where, took))
        ratios = {
            f"{one}_of_{other}": round(best[one] / best[other], 3)
            for one, other in (("farcall", "native"), ("thin", "native"), ("thin", "farcall"))
            if one in best and other in best
        }
        if ratios:
            shown = ", ".join(f"{where} {took:.2f} ms" for where, took in best.items())
            results.add(
                "training",
                name,
                "ratio",
                "pass",
                0,
                f"{shown}; " + ", ".join(f"{key} {value}" for key, value in ratios.items()),
                **ratios,
            )
