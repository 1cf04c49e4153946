# SPDX-License-Identifier: Apache-2.0
"""What tenants get of a device, in seconds in which something of theirs runs there, as somebody outside sees it: nothing that the server counts
is asked."""

import os
import pathlib
import threading
import time

PROC = pathlib.Path("/proc")
CORES = os.cpu_count()
DEVICE_THREAD = "farcall-stream"  # a stream's thread; those of the pool are started by one, and inherit its name


def thread_ns(path):
    """Processor time of a thread, how long it was ready to run, its name; None: it is gone."""
    try:
        ran, waited = map(int, (path / "schedstat").read_text().split()[:2])
        return ran, ran + waited, (path / "comm").read_text().strip()
    except (OSError, IndexError):
        return None


class DeviceThreads:
    """Of a CPU device: what the machine's books say of the worker's device threads, and of all its threads. Those that have ended stay
    counted, as they were seen last. The program has one stream: its thread is ready to run while something runs on the device, and works on
    every grid, so that no other is so for longer."""

    def __init__(self, pid):
        self.pid = pid
        self._threads = {}  # by id: (ns it ran, ns it was ready, is of the device)
        self._lock = threading.Lock()
        self.look()

    def look(self):
        with self._lock:
            try:
                threads = list((PROC / str(self.pid) / "task").iterdir())
            except OSError:
                return
            for thread in threads:
                seen = thread_ns(thread)
                if seen:
                    self._threads[thread.name] = (*seen[:2], seen[2] == DEVICE_THREAD)

    def device_s(self):
        self.look()
        return (
            max((ready for _, ready, of_device in self._threads.values() if of_device), default=0)
            / 1e9
        )

    def threads_s(self):
        self.look()
        return sum(ns for ns, _, of_device in self._threads.values() if of_device) / 1e9

    def all_s(self):
        self.look()
        return sum(ns for ns, *_ in self._threads.values()) / 1e9


class Progress:
    """Of any device: what the program says that it has done, at what that takes alone."""

    def __init__(self, tenant):
        self.tenant = tenant

    def device_s(self):
        return self.tenant.done() * self.tenant.work_s


class Sampler:
    """Looks now and then, and keeps what each had used at that time: [(seconds, [device seconds of each])]."""

    def __init__(self, used, every_s=0.1):
        self._used, self._every_s = used, every_s
        self.samples = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while True:
            self.samples.append((time.monotonic(), [used.device_s() for used in self._used]))
            if self._end.wait(self._every_s):
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        self.samples.append((time.monotonic(), [used.device_s() for used in self._used]))

    def gained(self):
        """Of the whole time: seconds that passed, device seconds of each."""
        (begun, first), (ended, last) = self.samples[0], self.samples[-1]
        return ended - begun, [after - before for before, after in zip(first, last)]

    def windows(self, length_s):
        """The same for each stretch of at least so long, one behind the other."""
        found, begun = [], self.samples[0]
        for sample in self.samples[1:]:
            if sample[0] - begun[0] >= length_s:
                found.append(
                    (
                        sample[0] - begun[0],
                        [after - before for before, after in zip(begun[1], sample[1])],
                    )
                )
                begun = sample
        return found


def load_average():
    return float(pathlib.Path("/proc/loadavg").read_text().split()[0])


def machine_busy():
    """(busy, stolen, all) of the machine's processors so far, in ticks: between two looks, what all programs together kept busy, and what
    a hypervisor gave to others meanwhile."""
    fields = [
        int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    ]
    return sum(fields) - fields[3] - fields[4] - fields[7], fields[7], sum(fields)
