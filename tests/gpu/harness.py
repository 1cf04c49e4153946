# SPDX-License-Identifier: Apache-2.0
"""What the steps of tests/gpu/run are made of: rows of results, commands with a limit, a server, the end that comes whatever hangs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

KILLED_S = 5  # how long the end of what was killed is waited for: a hung driver never lets go
LAST_S = 25  # past the budget: for the server's end and the report

running: set[subprocess.Popen] = set()
longest_s = 600.0  # of any step
native_env = dict(os.environ)


class Results:
    """The rows, kept on disk after each step: a run cut short still leaves what it had."""

    def __init__(self, out: Path, work: Path, budget: float):
        self.out, self.work, self.rows, self.machine = out, work, [], {}
        self.deadline = time.monotonic() + budget
        self.lock = threading.Lock()

    def left(self, wanted: float) -> float:
        return max(0.0, min(wanted, longest_s, self.deadline - time.monotonic()))

    def add(
        self,
        group: str,
        name: str,
        where: str,
        result: str,
        seconds: float = 0,
        note: str = "",
        **figures,
    ):
        row = {
            "group": group,
            "name": name,
            "where": where,
            "result": result,
            "seconds": round(seconds, 3),
            "note": note,
            "figures": figures,
        }
        with self.lock:
            self.rows.append(row)
            print(
                f"{group:10} {name:20} {where:8} {result:5} {seconds:7.2f} s  {note[:110]}",
                flush=True,
            )
            (self.out / "results.json").write_text(
                json.dumps({"machine": self.machine, "rows": self.rows}, indent=1)
            )
            (self.out / "results.md").write_text(self.markdown())

    def markdown(self) -> str:
        lines = ["# GPU results", ""]
        lines += [f"- {key}: {value}" for key, value in self.machine.items()]
        lines += [
            "",
            "| group | what | where | result | seconds | round trips | note |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in self.rows:
            trips = row["figures"].get("round_trips", "")
            note = row["note"].replace("|", "/")
            lines.append(
                f"| {row['group']} | {row['name']} | {row['where']} | {row['result']} | {row['seconds']} | {trips} | {note} |"
            )
        return "\n".join(lines) + "\n"


def kill_group(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(command: list, log: Path, limit: float, env: dict | None = None) -> tuple[int, float, str]:
    """Exit code (124: over the limit), seconds, output, which is also in `log`. Ends soon after the limit, whatever the program does."""
    if limit <= 0:
        return 124, 0.0, "no time left"
    started = time.monotonic()
    with log.open("w") as output:
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=native_env if env is None else env,
                start_new_session=True,
            )
        except OSError as error:
            return 127, 0.0, str(error)
    running.add(process)
    try:
        code = process.wait(limit)
        running.discard(process)
    except subprocess.TimeoutExpired:
        code = 124
        kill_group(process)  # what it started, too
        try:
            process.wait(KILLED_S)
            running.discard(process)
        except subprocess.TimeoutExpired:
            pass
    return code, time.monotonic() - started, log.read_text(errors="replace")


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    verdict = [line for line in lines if line.startswith(("PASS", "FAIL"))]
    return (verdict or lines or ["no output"])[-1][:300]


class Server:
    """`farcall serve` on a free port; `env` makes a program's calls go there, `through` starts a command as
    a user would."""

    def __init__(self, results: Results, tree: Path, device: str, *flags: str, name: str = "serve"):
        self.results, self.tree, self.name, self.process, self.endpoint = (
            results,
            tree,
            name,
            None,
            None,
        )
        self.own_env = {
            **native_env,
            "LD_LIBRARY_PATH": f"{tree / 'lib/deps'}:{native_env.get('LD_LIBRARY_PATH', '')}".strip(
                ":"
            ),
        }
        log = results.work / f"server-{name}.log"
        self.log = log.open("w")
        binary = tree / "bin/farcall"
        if not binary.exists():
            results.add(
                "server", name, "farcall", "fail", note=f"{binary} is missing: carry a built tree"
            )
            return
        try:
            self.process = subprocess.Popen(
                [
                    binary,
                    "serve",
                    "--listen",
                    "tcp://127.0.0.1:0",
                    "--device",
                    device,
                    "--worker-calls",
                    "report",
                    *flags,
                ],
                env=self.own_env,
                stdout=self.log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            results.add("server", name, "farcall", "fail", note=str(error))
            return
        running.add(self.process)
        found, until = None, time.monotonic() + results.left(30)
        while time.monotonic() < until:
            found = re.search(r"^farcall: serving .* on (tcp://[^ ,;]+)", log.read_text(), re.M)
            if found or self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.endpoint = found and found.group(1)
        if self.endpoint:
            results.add("server", name, "farcall", "pass", note=found.group(0))
        else:
            results.add(
                "server",
                name,
                "farcall",
                "fail",
                note=f"not listening: {last_line(log.read_text())}",
            )

    def env(self, name: str) -> dict:
        before = os.environ.get(
            "LD_LIBRARY_PATH", ""
        )  # without --libcuda's: ours is the driver there
        return {
            **os.environ,
            "LD_LIBRARY_PATH": f"{self.tree / 'lib/farcall'}:{before}".strip(":"),
            "FARCALL_ENDPOINT": self.endpoint,
            "FARCALL_STATS": str(self.results.work / f"{name}.stats.json"),
        }

    def through(self, command: list, thin: bool = False, endpoint: str | None = None) -> list:
        """By `farcall run`; thin mode past RPATHs and absolute paths, as PyTorch's wheels have them."""
        mode = ["--thin"] if thin else []
        return [
            self.tree / "bin/farcall",
            "run",
            *mode,
            "--endpoint",
            endpoint or self.endpoint,
            "--",
            *command,
        ]

    def figures(self, name: str) -> dict:
        try:
            stats = json.loads((self.results.work / f"{name}.stats.json").read_text())
        except (OSError, ValueError):
            return {}
        return {
            key: stats[key]
            for key in ("round_trips", "posted", "bytes_out", "bytes_in", "wait_ns")
            if key in stats
        }

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.results.add(
                    "server",
                    f"{self.name}, drained",
                    "farcall",
                    "fail",
                    note="no end 15 s after SIGTERM",
                )
                kill_group(self.process)
        self.log.close()


def each_way(
    results: Results,
    server: Server | None,
    group: str,
    name: str,
    command: list,
    limit: float,
    thin: bool = False,
) -> dict[str, str]:
    """Natively, through the server, and if asked for with our libraries in place of NVIDIA's; the output of those that passed, by way."""
    ways, outputs = (
        ["native"] + (["farcall"] + ["thin"] * thin if server and server.endpoint else []),
        {},
    )
    for where in ways:
        limit_s, through = results.left(limit), where != "native"
        stats = f"{name}-{where}"
        started = server.through(command, thin=True) if where == "thin" else command
        code, seconds, text = run(
            started, results.work / f"{stats}.log", limit_s, server.env(stats) if through else None
        )
        line = last_line(text)
        result = "skip" if code == 77 or limit_s <= 0 else "pass" if code == 0 else "fail"
        results.add(
            group,
            name,
            where,
            result,
            seconds,
            line if code != 124 or limit_s <= 0 else f"no end after {limit_s:.0f} s: {line}",
            **(server.figures(stats) if through else {}),
        )
        if result == "skip":
            break
        if result == "pass":
            outputs[where] = text
    return outputs


def collect(results: Results) -> None:
    """The logs in one archive, and one picture, so that few files come back."""
    with tarfile.open(results.out / "logs.tar.gz", "w:gz") as archive:
        for log in sorted(
            [*results.work.glob("*.log"), *results.work.glob("*.txt"), *results.work.glob("*.json")]
        ):
            archive.add(log, log.name)
    picture = results.work / "train_mlp.png"
    if picture.exists():
        shutil.copy(picture, results.out)


class Watchdog(threading.Thread):
    """Closes the report when the steps' own limits did not: what hangs in the kernel cannot be waited for."""

    def __init__(self, results: Results):
        super().__init__(daemon=True)
        self.results, self.done = results, threading.Event()

    def run(self) -> None:
        if self.done.wait(self.results.deadline + LAST_S - time.monotonic()):
            return
        self.results.add(
            "run",
            "cut short",
            "",
            "fail",
            note=f"a step did not end; its output is in logs.tar.gz, started last: {newest_log(self.results)}",
        )
        for process in list(running):
            kill_group(process)
        collect(self.results)
        sys.stdout.flush()
        os._exit(1)


def newest_log(results: Results) -> str:
    logs = sorted(results.work.glob("*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1].name if logs else "none"


def step(results: Results, group: str, action) -> None:
    """Nothing that goes wrong in one step keeps the others from running."""
    try:
        action()
    except Exception as error:  # of whatever kind: it becomes a row
        results.add(group, "this step", "", "fail", note=f"{type(error).__name__}: {error}")
