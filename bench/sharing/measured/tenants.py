# SPDX-License-Identifier: Apache-2.0
"""Programs on a server, each with an observer. Where they run is a place: it starts servers and programs, and has what observes them
(cpu_device.py; tests/gpu/sharing.py on a GPU).

    place.load             the program load.cu, built
    place.kernels          what a step of its kernel takes there, once that is known
    place.start_s          how long a program may take until it is warm
    place.serve(*flags)    a server: its start(tenant, command, environment) gives a process and an observer; stop()
"""

import math
import signal
import time

from observer import Sampler

SATURATING = (8, 4, 0)  # launches an iteration, iterations ahead, pause
WARM = 8  # iterations until the server knows what kernels cost


def until(condition, limit_s, what):
    """The limit only ends what has failed."""
    end = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {limit_s:g} s: {what()}")
        time.sleep(0.01)
    return value


class Tenant:
    def __init__(self, server, command, wants, start_s, work_s=0):
        self.server, self._start_s = server, start_s
        self.work_s = work_s  # of an iteration on the device, at what it takes alone
        self.begun = time.monotonic()
        self.client, self.used = server.start(
            self, command, {f"FARCALL_{name.upper()}": value for name, value in wants.items()}
        )

    def runs(self):
        return self.client.process.poll() is None

    def done(self):
        """Iterations."""
        return int(self.client.out[-1].split()[0]) if self.client.out else 0

    def iterations_ms(self, first=0):
        return [int(line.split()[2]) / 1000 for line in self.client.out[first:]]

    def wait_done(self, iterations):
        until(
            lambda: self.done() >= iterations or not self.runs(),
            self._start_s,
            lambda: f"{iterations} iterations, {self.done()} are done: {self.client.err}",
        )
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

    def __init__(self, place, *flags, **options):
        self.place = place
        self.server = place.serve(*flags, **options)
        self.all = []

    def load(self, steps, pieces, ahead, pause_us, iterations=0, **wants):
        work_s = (
            pieces * sum(steps) / len(steps) * self.place.kernels.step_us / 1e6
            if self.place.kernels
            else 0
        )
        command = (self.place.load, ",".join(map(str, steps)), pieces, ahead, pause_us, iterations)
        self.all.append(Tenant(self.server, command, wants, self.place.start_s, work_s))
        return self.all[-1]

    def program(self, *command, **wants):
        self.all.append(Tenant(self.server, command, wants, self.place.start_s))
        return self.all[-1]

    def warm(self):
        for tenant in self.all:
            tenant.wait_done(WARM)

    def watch(self, seconds, every_s=0.1):
        """What they use for so long."""
        with Sampler([tenant.used for tenant in self.all], every_s) as sampler:
            time.sleep(seconds)
        return sampler

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for tenant in self.all:
            tenant.end()
        self.server.stop()


class Kernels:
    """How many steps of the program's kernel take how long on the device alone."""

    def __init__(self, step_us):
        self.step_us = step_us

    def steps(self, microseconds):
        return max(round(microseconds / self.step_us), 1)

    def mixed(self, least_us, most_us, kinds=12):
        """Log-uniform."""
        ratio = math.log(most_us / least_us) / (kinds - 1)
        return [self.steps(least_us * math.exp(ratio * i)) for i in range(kinds)]
