# SPDX-License-Identifier: Apache-2.0
"""Shares, limits and classes of device time: the trials of bench/sharing/measured, observed by what the programs themselves get done.
Nothing that the server counts is asked. What docs/internals/sharing.md sets as goals is judged there, not here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from harness import KILLED_S, Results, Server, kill_group, last_line, run, running

MEASURED = Path(__file__).resolve().parents[2] / "bench/sharing/measured"
sys.path.insert(0, str(MEASURED))
import trials  # noqa: E402
from observer import Progress  # noqa: E402
from tenants import Kernels, until  # noqa: E402

SAMPLE_STEPS = 20000
SECONDS = 8  # of each measurement
ENDS_S = 30  # of a killed program's session


class Program:
    """A running one, its lines collected; all that it started ends with it."""

    def __init__(self, command: list, env: dict):
        self.out: list[str] = []
        self.err: list[str] = []
        self.process = subprocess.Popen(
            [str(part) for part in command],
            env=env,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        running.add(self.process)
        self._readers = [
            threading.Thread(
                target=lambda pipe=pipe, lines=lines: lines.extend(iter(pipe.readline, "")),
                daemon=True,
            )
            for pipe, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for reader in self._readers:
            reader.start()

    def wait(self) -> int:
        code = self.process.wait()
        for reader in self._readers:
            reader.join()
        running.discard(self.process)
        return code

    def kill(self) -> None:
        kill_group(self.process)
        self.process.wait(KILLED_S)
        running.discard(self.process)


class RunningServer:
    """The one that there is, for each trial."""

    def __init__(self, server: Server):
        self._server, self._log = server, server.results.work / f"server-{server.name}.log"

    def start(self, tenant, command, environment) -> tuple[Program, Progress]:
        env = {**self._server.env("load"), **environment}
        env.pop("FARCALL_STATS")
        return Program(command, env), Progress(tenant)

    def stop(self) -> None:
        """What the trial's programs held is free again: their contexts take a while to go."""

        def left() -> int:
            text = self._log.read_text(errors="replace")
            return text.count("): started from ") - text.count("): ended after ")

        until(lambda: left() <= 0, ENDS_S, lambda: f"{left()} sessions have not ended")


class Gpu:
    def __init__(self, server: Server, load: Path, kernels: Kernels, start_s: float):
        self.load, self.kernels, self.start_s, self._server = load, kernels, start_s, server

    def serve(self) -> RunningServer:
        return RunningServer(self._server)


def built(results: Results, tree: Path) -> Path:
    """The program: the tree's, else built here by nvcc."""
    program = tree / "bench-programs/load"
    source = MEASURED / "load.cu"
    if not program.exists() and shutil.which("nvcc") and source.exists():
        program = results.work / "load"
        code, seconds, text = run(
            ["nvcc", source, "-o", program], results.work / "nvcc-load.log", results.left(120)
        )
        results.add(
            "build",
            "load",
            "native",
            "fail" if code else "pass",
            seconds,
            last_line(text) if code else "",
        )
    return program


def tell(results: Results, group: str, figures) -> None:
    """A row for each trial, once it is over."""
    rows: dict[str, dict[str, tuple[float, str]]] = {}
    begun = time.monotonic()
    for trial, what, value, unit in figures:
        if not isinstance(value, list):
            rows.setdefault(trial, {})[what] = (value, unit)
    for trial, found in rows.items():
        note = "; ".join(
            f"{what} {value:.4g} {unit}".rstrip() for what, (value, unit) in found.items()
        )
        results.add(
            "sharing",
            f"{group} {trial}",
            "farcall",
            "pass",
            time.monotonic() - begun,
            note,
            **{what: value for what, (value, _) in found.items()},
        )


def run_all(results: Results, tree: Path, device: str) -> None:
    server = Server(
        results, tree, device, "--max-share", "100%", "--max-priority", "high", name="sharing"
    )
    try:
        measure(results, server, tree)
    finally:
        server.close()


def measure(results: Results, server: Server, tree: Path) -> None:
    program = built(results, tree) if server.endpoint else tree
    if not program.is_file():
        results.add(
            "sharing",
            "load",
            "farcall",
            "skip",
            note="no server, or neither bench-programs/load nor an nvcc that makes it",
        )
        return
    pieces, rounds = 8, 40
    code, seconds, text = run(
        [program, SAMPLE_STEPS, pieces, 4, 0, rounds], results.work / "load.log", results.left(60)
    )
    if code:
        results.add("sharing", "load", "native", "fail", seconds, last_line(text))
        return
    kernels = Kernels(int(last_line(text).split()[1]) / (SAMPLE_STEPS * pieces * rounds))
    results.add(
        "sharing",
        "load",
        "native",
        "pass",
        seconds,
        f"a millisecond is {kernels.steps(1000)} steps of its kernel",
        step_us=kernels.step_us,
    )
    gpu = Gpu(server, program, kernels, results.left(60))
    for name, seconds, trial in (
        ("shares", 4 * SECONDS, lambda: trials.shares(gpu, SECONDS)),
        ("limit", 4 * SECONDS, lambda: trials.caps(gpu, SECONDS)),
        ("high:", 5 * SECONDS, lambda: trials.priority(gpu, SECONDS, rounds=1)),
        ("mix:", 4 * SECONDS, lambda: trials.mix(gpu, 1)),
    ):
        if results.left(seconds) < seconds:
            results.add("sharing", name, "farcall", "skip", note=f"{seconds} s are not left")
        else:
            tell(results, name, trial())
