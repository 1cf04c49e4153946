#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tenant may do, and what its neighbour notices: it goes on, and the server's memory stays bounded."""
import pathlib
import unittest

from harness import Client, Server, run, until

UNITS = 40
MOST_RSS = 1 << 30  # of a hostile tenant's worker: its code, its device's heap and what waits in the server


def progress(client):
    assert client.process.poll() is None, client.err
    return int(client.out[-1]) if client.out else 0


def rss(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


class Neighbours(unittest.TestCase):
    def setUp(self):
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.kill()

    def serve(self, *flags):
        server = Server(*flags)
        self.addCleanup(server.stop)
        return server

    def client(self, server, *command, **wants):
        client = Client(server.url, *command, environment={f"FARCALL_{name.upper()}": value for name, value in wants.items()})
        self.clients.append(client)
        return client

    def neighbour(self, server):
        client = self.client(server, "progress", share="50%")
        until(lambda: progress(client) > 8, 120, "the neighbour runs")
        return client

    def goes_on(self, client, units=UNITS):
        done = progress(client)
        until(lambda: progress(client) - done >= units, 200, "the neighbour goes on")

    def hostile(self, server, subject, **wants):
        client = self.client(server, "hostile", subject, share="50%", **wants)
        client.wait_line("on")
        self.assertTrue(client.out, client.err)
        return client

    def workers_memory(self, server):
        return max(rss(pid) for pid in server.workers())

    def test_beside_a_flood_of_launches(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        self.hostile(server, "flood")
        self.goes_on(neighbour)
        self.assertLess(self.workers_memory(server), MOST_RSS)

    def test_beside_a_kernel_that_never_ends(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        hostile = self.hostile(server, "endless")
        self.goes_on(neighbour)
        self.assertIsNone(hostile.process.poll(), "nobody ended it")
        hostile.kill()
        until(lambda: len(server.workers()) == 1, 60, "its session ends with it")
        self.goes_on(neighbour)

    def test_beside_64_threads_that_allocate_and_free(self):
        server = self.serve("--mem", "64MiB")
        neighbour = self.neighbour(server)
        self.hostile(server, "churn")
        for _ in range(4):
            self.goes_on(neighbour, UNITS // 4)
            self.assertLess(self.workers_memory(server), MOST_RSS)

    def test_beside_children_that_take_memory_and_die(self):
        server = self.serve()
        neighbour = self.neighbour(server)
        hostile = self.hostile(server, "forks")
        self.goes_on(neighbour, UNITS // 4)
        self.assertEqual(hostile.wait(), 0, hostile.err)
        until(lambda: len(server.workers()) == 1, 60, "their sessions are gone")
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
        others[0].kill()
        until(lambda: len(server.workers()) == 3, 60, "one is gone")
        more = self.client(server, "progress")
        until(lambda: progress(more) > 0, 120, "there is room again")


if __name__ == "__main__":
    unittest.main()
