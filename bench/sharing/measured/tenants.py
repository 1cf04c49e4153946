# SPDX-License-Identifier: Apache-2.0
"""Servers on the CPU device and programs on them, each with the worker that serves it."""
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/session"))
from harness import BUILD, Client, Server, until  # noqa: E402

from observer import Sampler, Used  # noqa: E402

LOAD = BUILD / "bench-programs/load"
SWAPPED = BUILD / "tests/session/swapped"
CORES = os.cpu_count()
SATURATING = (8, 4, 0)  # launches an iteration, iterations ahead, pause
WARM = 8                # iterations until the server knows what kernels cost
START_S = 120           # only ends what has failed


def is_worker(pid):
    try:
        return b"worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def workers(server):
    return {pid for pid in server.workers() if is_worker(pid)}


class Tenant:
    """A program on a server, and what the machine's books say of its worker."""

    def __init__(self, server, *command, **wants):
        before = workers(server)
        self.server = server
        self.begun = time.monotonic()
        self.client = Client(server.url, *command, environment={f"FARCALL_{name.upper()}": value for name, value in wants.items()})
        until(lambda: workers(server) - before or self.client.process.poll() is not None, START_S, "a worker")
        self.used = Used((workers(server) - before).pop()) if self.runs() else None

    def runs(self):
        return self.client.process.poll() is None

    def done(self):
        """Iterations."""
        return int(self.client.out[-1].split()[0]) if self.client.out else 0

    def iterations_ms(self, first=0):
        return [int(line.split()[2]) / 1000 for line in self.client.out[first:]]

    def wait_done(self, iterations):
        until(lambda: self.done() >= iterations or not self.runs(), START_S, f"{iterations} iterations: {self.client.err}")
        if not self.runs():
            raise RuntimeError(f"ended: {self.client.err}")

    def go_on(self):
        self.client.process.send_signal(signal.SIGCONT)

    def stand_still(self):
        """Once what it had queued is done."""
        self.client.process.send_signal(signal.SIGSTOP)
        before = -1
        while before != (before := self.used.device_s()):
            time.sleep(0.05)

    def end(self):
        self.client.kill()


class Tenants:
    """Those of one server; all end with it."""

    def __init__(self, *flags, device="cpu"):
        self.server = Server(*flags, device=device)
        self.all = []

    def load(self, steps, pieces, ahead, pause_us, iterations=0, **wants):
        text = ",".join(map(str, steps))
        self.all.append(Tenant(self.server, LOAD, text, pieces, ahead, pause_us, iterations, **wants))
        return self.all[-1]

    def program(self, *command, **wants):
        self.all.append(Tenant(self.server, *command, **wants))
        return self.all[-1]

    def warm(self):
        for tenant in self.all:
            tenant.wait_done(WARM)

    def watch(self, seconds):
        """What they use for so long."""
        with Sampler([tenant.used for tenant in self.all]) as sampler:
            time.sleep(seconds)
        return sampler

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for tenant in self.all:
            tenant.end()
        self.server.stop()


class Kernels:
    """How many steps of the program's kernel take how long on this machine now."""

    def __init__(self, seconds=3):
        with Tenants() as alone:
            one = alone.load([2000], *SATURATING)
            alone.warm()
            before = one.done()
            passed, (used,) = alone.watch(seconds).gained()
            self.step_us = used / CORES * 1e6 / ((one.done() - before) * SATURATING[0] * 2000)
            self.device_part = used / CORES / passed  # what the machine leaves to a program alone

    def steps(self, microseconds):
        return max(round(microseconds / self.step_us), 1)

    def mixed(self, least_us, most_us, kinds=12):
        """Log-uniform."""
        ratio = math.log(most_us / least_us) / (kinds - 1)
        return [self.steps(least_us * math.exp(ratio * i)) for i in range(kinds)]


def small_device(memory):
    """A profile of a device with so much memory."""
    file = tempfile.NamedTemporaryFile("w", suffix=".profile", delete=False)
    file.write(f"memory = {memory}\n")
    file.close()
    return file.name


def cpu_of(pids):
    return sum(Used(pid).all_s() for pid in pids)


def version():
    try:
        return subprocess.run([BUILD / "bin/farcall", "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        return ""
