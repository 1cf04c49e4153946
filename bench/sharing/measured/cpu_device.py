# SPDX-License-Identifier: Apache-2.0
"""Programs on the CPU device, observed by what the machine's books say of their workers' device
threads. FARCALL_BUILD names the build tree."""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests/session"))
from harness import BUILD, Client, Server  # noqa: E402

from observer import DeviceThreads  # noqa: E402
from tenants import SATURATING, Kernels, Tenants, until  # noqa: E402

SWAPPED = BUILD / "tests/session/swapped"
START_S = 120


def is_worker(pid):
    try:
        return b"worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class CpuServer(Server):
    def session_workers(self):
        return {pid for pid in self.workers() if is_worker(pid)}

    def start(self, _, command, environment):
        before = self.session_workers()
        client = Client(self.url, *command, environment=environment)
        until(
            lambda: self.session_workers() - before or client.process.poll() is not None,
            START_S,
            lambda: "a worker",
        )
        found = self.session_workers() - before
        return client, DeviceThreads(found.pop() if found else client.process.pid)


class CpuDevice:
    """
    apart  the device is one processor, and all else runs on the others, as beside a GPU; if not,
           all processors are the device, and programs and workers take of it
    """

    load, start_s = BUILD / "bench-programs/load", START_S

    def __init__(self, apart=False):
        self.kernels, self._own = None, sorted(os.sched_getaffinity(0))
        self._profiles = tempfile.TemporaryDirectory()
        if apart:
            if len(self._own) < 2:
                raise SystemExit(
                    "--device cpu-apart: wants two processors, one of them for the device; there is one"
                )
            os.sched_setaffinity(0, self._own[:-1])  # of what is started here, too
            self._own = self._own[-1:]

    def serve(self, *flags, memory=None):
        """
        memory  of the device; None: what the CPU device has by default
        """
        profile = pathlib.Path(self._profiles.name, f"{memory}.profile")  # read by each worker
        profile.write_text(
            f"processors = {','.join(map(str, self._own))}\n"
            + (f"memory = {memory}\n" if memory else "")
        )
        return CpuServer(
            "--max-share", "100%", "--max-priority", "high", *flags, device=f"cpu:{profile}"
        )

    def calibrate(self, seconds=3):
        """What a step takes on this machine now.

        Returns  the part of the device that the machine leaves to a program alone
        """
        steps = 2000
        with Tenants(self) as alone:
            one = alone.load([steps], *SATURATING)
            alone.warm()
            before = one.done()
            passed, (used,) = alone.watch(seconds).gained()
        self.kernels = Kernels(used * 1e6 / ((one.done() - before) * SATURATING[0] * steps))
        return used / passed


def cpu_of(pids):
    return sum(DeviceThreads(pid).all_s() for pid in pids)
