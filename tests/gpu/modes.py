# SPDX-License-Identifier: Apache-2.0
"""The modes in which a device is shared: the server's own MPS daemons, and a device for one vGPU alone."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import Results, Server, last_line, run

LIMIT_S = 60


def in_mps(results: Results, tree: Path, device: str, program: Path) -> None:
    """Two sessions at once as clients of one MPS server; NVIDIA's control program is the server's to start."""
    if not shutil.which("nvidia-cuda-mps-control"):
        results.add(
            "modes", "mps", "farcall", "skip", note="nvidia-cuda-mps-control is not installed"
        )
        return
    server = Server(results, tree, device, "--mode", "mps", "--max-limit", "50%", name="mps")
    try:
        if server.endpoint:
            ends = two_at_once(results, server, program, "mps")
            results.add(
                "modes",
                "mps, two at once",
                "farcall",
                "fail" if any(code for code, _, _ in ends) else "pass",
                max(seconds for _, seconds, _ in ends),
                "; ".join(last_line(text) for _, _, text in ends),
            )
    finally:
        server.close()


def alone(results: Results, tree: Path, device: str, program: Path) -> None:
    """Each of two vGPUs that follow one another has the device; `farcall serve` says what mode it is in."""
    server = Server(results, tree, device, "--mode", "exclusive", name="exclusive")
    try:
        for at in range(2 if server.endpoint else 0):
            code, seconds, text = run(
                [program],
                results.work / f"exclusive-{at}.log",
                results.left(LIMIT_S),
                server.env(f"exclusive-{at}"),
            )
            results.add(
                "modes",
                f"exclusive {at + 1}",
                "farcall",
                "fail" if code else "pass",
                seconds,
                last_line(text),
            )
    finally:
        server.close()


def two_at_once(
    results: Results, server: Server, program: Path, name: str
) -> list[tuple[int, float, str]]:
    with ThreadPoolExecutor(2) as pool:
        return list(
            pool.map(
                lambda at: run(
                    [program],
                    results.work / f"{name}-{at}.log",
                    results.left(LIMIT_S),
                    server.env(f"{name}-{at}"),
                ),
                range(2),
            )
        )


def run_all(results: Results, tree: Path, device: str, programs: dict[str, Path]) -> None:
    if "vector_add" not in programs:
        results.add("modes", "vector_add", "farcall", "skip", note="not built")
        return
    alone(results, tree, device, programs["vector_add"])
    in_mps(
        results,
        tree,
        device,
        programs["train_mlp"] if "train_mlp" in programs else programs["vector_add"],
    )
