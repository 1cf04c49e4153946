# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch: natively, over TCP, over shared memory, there with our libraries in
place of NVIDIA's, and over TCP with a round trip of a millisecond; the ratios of the medians."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from harness import Results, Server, last_line, native_env, run

PACKED = Path(__file__).resolve().parents[2]
PROGRAMS = PACKED / "examples/pytorch"
sys.path.insert(0, str(PACKED / "bench/latency"))
from delayed_link import DelayedLink  # noqa: E402

# Small steps show what a launch costs, large ones what the link does beside work; a captured step
# is one launch.
CASES = {
    "gpt": ["gpt.py", "--steps", "100"],
    "gpt, captured": ["gpt.py", "--steps", "200", "--graph"],
    "gpt, large": ["gpt.py", "--steps", "40", "--width", "768", "--layers", "8", "--block", "256"],
    "cnn": ["cnn.py", "--steps", "60"],
}
OVER_DELAY = {"gpt", "gpt, large"}
RTT_S = 0.001
LIMIT_S = 60


def milliseconds_a_step(output: str) -> float | None:
    found = re.search(r" median ([0-9.]+) ms", output)
    return float(found.group(1)) if found else None


def ways_of(server: Server, shm: str, delayed: str, name: str, command: list) -> dict[str, list]:
    ways = {
        "native": command,
        "tcp": server.through(command),
        "shm": server.through(command, endpoint=shm),
        "thin": server.through(command, thin=True, endpoint=shm),
    }
    if name in OVER_DELAY:
        ways["1 ms"] = server.through(command, endpoint=delayed)
    return ways


def measure(results: Results, server: Server, shm: str, delayed: str) -> None:
    for name, (program, *flags) in CASES.items():
        medians: dict[str, float] = {}
        command = [sys.executable, PROGRAMS / program, *flags]
        for where, started in ways_of(server, shm, delayed, name, command).items():
            stats = f"{program}-{len(flags)}-{where}".replace(" ", "-")
            base = native_env if where == "native" else server.own_env
            env = {**base, "FARCALL_STATS": str(results.work / f"{stats}.stats.json")}
            log = results.work / f"training-{stats}.log"
            limit_s = results.left(LIMIT_S)
            code, seconds, text = run(started, log, limit_s, env)
            took = milliseconds_a_step(text)
            state = "skip" if limit_s <= 0 else "fail" if code or not took else "pass"
            figures = server.figures(stats) if where != "native" else {}
            results.add("training", name, where, state, seconds, last_line(text), **figures)
            if took and not code:
                medians[where] = took
        ratios = {
            f"{where}_of_native": round(took / medians["native"], 3)
            for where, took in medians.items()
            if where != "native" and "native" in medians
        }
        if ratios:
            shown = ", ".join(f"{where} {took:.2f} ms" for where, took in medians.items())
            told = ", ".join(f"{key} {value}" for key, value in ratios.items())
            results.add("training", name, "ratio", "pass", 0, f"{shown}; {told}", **ratios)


def run_all(results: Results, tree: Path, device: str) -> None:
    code, _, text = run(
        [sys.executable, "-c", "import torch"],
        results.work / "training-torch.log",
        results.left(60),
    )
    if code or not PROGRAMS.is_dir():
        note = text.strip()[-200:] or "not brought: examples/pytorch"
        results.add("training", "PyTorch", "native", "skip", note=note)
        return
    socket = results.work / "training.shm"
    server = Server(results, tree, device, "--shm", str(socket), name="training")
    link = None
    try:
        if server.endpoint:
            host, port = server.endpoint.removeprefix("tcp://").rsplit(":", 1)
            link = DelayedLink((host, int(port)), RTT_S)
            measure(results, server, f"shm://{socket}", f"tcp://127.0.0.1:{link.port}")
    finally:
        server.close()
        if link:
            link.close()
