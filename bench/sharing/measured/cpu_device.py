# SPDX-License-Identifier: Apache-2.0
"""Programs on the CPU device, observed by the processor time of their workers' device threads. FARCALL_BUILD names the build tree."""
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
        until(lambda: self.session_workers() - before or client.process.poll() is not None, START_S, lambda: "a worker")
        found = self.session_workers() - before
        return client, DeviceThreads(found.pop() if found else client.process.pid)


class CpuDevice:
    load, kernels, start_s = BUILD / "bench-programs/load", None, START_S

    def serve(self, *flags, device="cpu"):
        return CpuServer(*flags, device=device)

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


def small_device(memory):
    """A profile of a device with so much memory."""
    file = tempfile.NamedTemporaryFile("w", suffix=".profile", delete=False)
    file.write(f"memory = {memory}\n")
    file.close()
    return file.name


def cpu_of(pids):
    return sum(DeviceThreads(pid).all_s() for pid in pids)
