# SPDX-License-Identifier: Apache-2.0
"""Shares, limits and classes of device time, by what the programs themselves get done (bench/sharing/measured/load.cu): nothing that the
server counts is asked. The first steps of a calibration; the whole table is docs/sharing.md's."""
from __future__ import annotations

import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path

from harness import KILLED_S, Results, Server, kill_group, last_line, run, running

SOURCE = Path(__file__).resolve().parents[2] / "bench/sharing/measured/load.cu"
WARM = 8  # iterations until the server knows what kernels cost
SATURATING = (8, 4, 0)  # launches an iteration, iterations ahead, pause in us
SAMPLE_STEPS = 20000
SECONDS = 8  # of each measurement


class Tenant:
    def __init__(self, server: Server, program: Path, steps: list[int], *shape: int, **wants: str):
        env = {**server.env("load"), **{f"FARCALL_{name.upper()}": value for name, value in wants.items()}}
        env.pop("FARCALL_STATS")
        self.iterations: list[int] = []  # microseconds that each took
        self.said = ""
        self.process = subprocess.Popen([program, ",".join(map(str, steps)), *map(str, shape)], env=env, text=True, start_new_session=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        running.add(self.process)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            fields = line.split()
            if len(fields) == 3 and all(field.isdigit() for field in fields):
                self.iterations.append(int(fields[2]))
            else:
                self.said = line.strip()

    def done(self) -> int:
        return len(self.iterations)

    def end(self) -> None:
        kill_group(self.process)
        self.process.wait(KILLED_S)
        running.discard(self.process)


class Company:
    """Tenants of one server, which end together."""

    def __init__(self, results: Results, server: Server, program: Path):
        self.results, self.server, self.program, self.all = results, server, program, []

    def __enter__(self) -> "Company":
        return self

    def __exit__(self, *_) -> None:
        for tenant in self.all:
            tenant.end()

    def add(self, steps: list[int], *shape: int, **wants: str) -> Tenant:
        self.all.append(Tenant(self.server, self.program, steps, *shape, **wants))
        return self.all[-1]

    def watch(self, seconds: float) -> list[list[int]]:
        """Iterations of each in each second, once all are warm."""
        until = time.monotonic() + self.results.left(60)
        while any(tenant.done() < WARM for tenant in self.all):
            ended = [tenant for tenant in self.all if tenant.process.poll() is not None]
            if ended or time.monotonic() > until:
                raise RuntimeError(f"not warm: {[tenant.done() for tenant in self.all]} iterations; {ended[0].said if ended else 'too slow'}")
            time.sleep(0.02)
        counts = [[tenant.done() for tenant in self.all]]
        for _ in range(max(round(self.results.left(seconds)), 1)):
            time.sleep(1)
            counts.append([tenant.done() for tenant in self.all])
        return [[after - before for before, after in zip(*pair)] for pair in zip(counts, counts[1:])]


def total(seconds: list[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*seconds)]


def error(got: list[int], wanted: tuple[int, ...]) -> float:
    return max(abs(100 * one / max(sum(got), 1) - share) for one, share in zip(got, wanted))


def shares(results: Results, company, steps: list[int]) -> None:
    for wanted in ((50, 50), (25, 75), (10, 90), (25, 25, 25, 25)):
        with company() as tenants:
            for share in wanted:
                tenants.add(steps, *SATURATING, share=f"{share}%")
            seconds = tenants.watch(SECONDS)
        whole, worst = error(total(seconds), wanted), max(error(got, wanted) for got in seconds)
        results.add("sharing", "shares " + ":".join(map(str, wanted)), "farcall", "pass", len(seconds),
                    f"error {whole:.2f} points over all (goal 0.3), {worst:.2f} in the worst second (goal 1)", whole=whole, worst=worst)


def limits(results: Results, company, steps: list[int]) -> None:
    with company() as tenants:
        tenants.add(steps, *SATURATING)
        alone, = total(seconds := tenants.watch(SECONDS / 2))
        alone /= len(seconds)
    for limit in (10, 50, 90):
        with company() as tenants:
            tenants.add(steps, *SATURATING, limit=f"{limit}%")
            got, = total(seconds := tenants.watch(SECONDS))
        reached = 100 * got / len(seconds) / max(alone, 1e-9)
        results.add("sharing", f"limit {limit} %", "farcall", "pass", len(seconds), f"{reached:.2f} % of its speed alone (goal: within 0.5 points)",
                    reached=reached)


def priority(results: Results, company, steps_of_ms: int) -> None:
    low_steps = [max(steps_of_ms * part // 100, 1) for part in (5, 20, 80, 250)]
    with company() as tenants:
        tenants.add(low_steps, *SATURATING, priority="low")
        low_alone, = total(seconds := tenants.watch(SECONDS / 2))
        low_alone /= len(seconds)
    for name, busy_ms, pause_ms, goal in (("training, 75 ms of 100", 75, 25, "3 % of the mean"), ("requests, 15 ms every 20", 15, 5, "5 % of the p99")):
        took, low = {}, 0.0
        for beside in (False, True):
            with company() as tenants:
                high = tenants.add([steps_of_ms], busy_ms, 1, pause_ms * 1000, priority="high")
                if beside:
                    tenants.add(low_steps, *SATURATING, priority="low")
                seconds = tenants.watch(SECONDS)
                took[beside] = sorted(high.iterations[WARM:])
                low = total(seconds)[-1] / len(seconds) if beside else low
        mean, p99 = (100 * (of(took[True]) / of(took[False]) - 1)
                     for of in (statistics.mean, lambda values: values[min(int(0.99 * len(values)), len(values) - 1)]))
        kept = 100 * low / max(low_alone, 1e-9)
        results.add("sharing", f"high: {name}", "farcall", "pass", SECONDS, f"loses {mean:.1f} % of the mean, {p99:.1f} % of the p99 (goal {goal}); "
                    f"the low one keeps {kept:.0f} % of its speed alone (goal 20)", mean=mean, p99=p99, kept=kept)


def built(results: Results, tree: Path) -> Path:
    """The program: the tree's, else built here by nvcc."""
    program = tree / "bench-programs/load"
    if not program.exists() and shutil.which("nvcc") and SOURCE.exists():
        program = results.work / "load"
        code, seconds, text = run(["nvcc", SOURCE, "-o", program], results.work / "nvcc-load.log", results.left(120))
        results.add("build", "load", "native", "fail" if code else "pass", seconds, last_line(text) if code else "")
    return program


def run_all(results: Results, server: Server, tree: Path) -> None:
    program = built(results, tree) if server.endpoint else tree
    if not program.is_file():
        results.add("sharing", "load", "farcall", "skip", note="no server, or neither bench-programs/load nor an nvcc that makes it")
        return
    pieces, rounds = 8, 40
    code, seconds, text = run([program, SAMPLE_STEPS, pieces, 4, 0, rounds], results.work / "load.log", results.left(60))
    if code:
        results.add("sharing", "load", "native", "fail", seconds, last_line(text))
        return
    last_us = int(last_line(text).split()[1])
    steps_of_ms = max(round(SAMPLE_STEPS * pieces * rounds * 1000 / max(last_us, 1)), 1)
    results.add("sharing", "load", "native", "pass", seconds, f"a millisecond is {steps_of_ms} steps of its kernel", steps_of_ms=steps_of_ms)
    mixed = [max(steps_of_ms * part // 1000, 1) for part in (20, 80, 300, 1200, 8000)]

    def company() -> Company:
        return Company(results, server, program)
    shares(results, company, mixed)
    limits(results, company, [steps_of_ms])
    priority(results, company, steps_of_ms)
