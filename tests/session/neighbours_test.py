#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tenant may do, and what its neighbour notices: it goes on with its share of the time in
which the server counts the device as busy, and the server's memory stays bounded."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from harness import FARCALL, Client, Server, run, until

UNITS = 40
SHARE = 0.5
# Of a window of WINDOW_NS in which anything ran on the device. docs/internals/sharing.md's bound is a fourth of both
# sides' lease, outstanding work and longest kernel: some 10 ms here, 1 point of a second.
MOST_LOSS, WINDOW_NS = 0.05, 10**9
MOST_SUPERVISOR_RSS = 128 << 20
MOST_RSS = (
    1 << 30
)  # of a hostile tenant's worker: its code, its device's heap and what waits in the server


def progress(client):
    assert client.process.poll() is None, client.err
    return int(client.out[-1]) if client.out else 0


def rss(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


def is_worker(pid):
    try:
        return b"worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False


class Neighbours(unittest.TestCase):
    def setUp(self):
        self.clients = []
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.control = pathlib.Path(folder.name, "control.sock")

    def tearDown(self):
        for client in self.clients:
            client.kill()

    def serve(self, *flags):
        server = Server("--control", str(self.control), *flags)
        self.addCleanup(server.stop)
        return server

    def client(self, server, *command, **wants):
        client = Client(
            server.url,
            *command,
            environment={f"FARCALL_{name.upper()}": value for name, value in wants.items()},
        )
        self.clients.append(client)
        return client

    def neighbour(self, server):
        client = self.client(server, "progress", share=f"{SHARE:.0%}")
        until(lambda: progress(client) > 8, 120, "the neighbour runs")
        return client

    def goes_on(self, client, units=UNITS, window_ns=WINDOW_NS):
        """By so many units, and by its share of the time in which the device was busy, however fast the machine is now.
        The sum of the vGPUs' times is no measure of it: they overlap beside a kernel that cannot be stopped."""
        done, (own, busy) = progress(client), self.counted(client)
        until(
            lambda: progress(client) - done >= units
            and self.counted(client)[1] - busy >= window_ns,
            200,
            "the neighbour goes on",
        )
        own_now, busy_now = self.counted(client)
        self.assertGreaterEqual((own_now - own) / (busy_now - busy), SHARE - MOST_LOSS)

    def counted(self, client):
        """Nanoseconds: the client's device time (0: there is none), and those in which anything ran there."""
        told = subprocess.run(
            [FARCALL, "ps", "--json", "--control", self.control],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        status = json.loads(told.stdout)
        own = [
            int(vgpu["devices"][0]["device_ns"])
            for vgpu in status["vgpus"]
            for session in vgpu["sessions"][:1]
            if session["pid"] == client.process.pid
        ]
        return sum(own), int(status["devices"][0]["busy_ns"])

    @staticmethod
    def workers(server):
        return [pid for pid in server.workers() if is_worker(pid)]

    def check_memory(self, server):
        self.assertLess(rss(server.process.pid), MOST_SUPERVISOR_RSS)
        self.assertLess(max(rss(pid) for pid in self.workers(server)), MOST_RSS)

    def hostile(self, server, subject, **wants):
        client = self.client(server, "hostile", subject, share="50%", **wants)
        client.wait_line("on")
        self.assertTrue(client.out, client.err)
        return client

    def test_beside_a_flood_of_launches(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        self.hostile(server, "flood")
        self.goes_on(neighbour)
        self.check_memory(server)

    def test_beside_a_kernel_that_never_ends(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        hostile = self.hostile(server, "endless")
        first = until(lambda: self.counted(hostile)[0], 120, "it is counted while it runs")
        until(lambda: self.counted(hostile)[0] > first, 120, "and more")
        done = progress(neighbour)
        until(
            lambda: progress(neighbour) - done >= 4, 120, "it keeps others out for a second at most"
        )
        self.goes_on(neighbour, window_ns=4 * WINDOW_NS)
        self.assertIsNone(hostile.process.poll(), "nobody ended it")
        self.check_memory(server)
        hostile.kill()
        until(lambda: len(self.workers(server)) == 1, 60, "its session ends with it")
        self.goes_on(neighbour)

    def test_beside_64_threads_that_allocate_and_free(self):
        server = self.serve("--mem", "64MiB")
        neighbour = self.neighbour(server)
        self.hostile(server, "churn")
        for _ in range(4):
            self.goes_on(neighbour, UNITS // 4)
            self.check_memory(server)

    def test_beside_children_that_take_memory_and_die(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        hostile = self.hostile(server, "forks")
        self.goes_on(neighbour, UNITS // 4)
        self.assertEqual(hostile.wait(), 0, hostile.err)
        self.check_memory(server)
        until(lambda: len(self.workers(server)) == 1, 60, "their sessions are gone")
        self.goes_on(neighbour, UNITS // 4)

    def test_sessions_until_refused(self):
        server = self.serve("--max-sessions", "4")
        neighbour = self.neighbour(server)
        others = [self.client(server, "progress") for _ in range(3)]
        until(lambda: all(progress(other) > 0 for other in others), 120, "the others run")
        for _ in range(5):
            refused = run(server.url, "progress")
            self.assertNotEqual(refused.process.returncode, 0)
            self.assertIn("the server is full: 4 sessions of 4", "\n".join(refused.err))
        self.goes_on(neighbour, UNITS // 4)
        self.check_memory(server)
        others[0].kill()
        until(lambda: len(self.workers(server)) == 3, 60, "one is gone")
        more = self.client(server, "progress")
        until(lambda: progress(more) > 0, 120, "there is room again")


if __name__ == "__main__":
    unittest.main()
