#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shares, caps and refusals of device time, of unmodified programs; seen from outside: their own progress, their
workers' CPU time."""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from harness import FARCALL, Client, Server, run, until

WARM = 8  # units until costs are known


def progress(client):
    return int(client.out[-1]) if client.out else 0


def tenant(server, **wants):
    return Client(
        server.url,
        "progress",
        environment={f"FARCALL_{name.upper()}": value for name, value in wants.items()},
    )


def runs(*clients):
    for client in clients:
        assert client.process.poll() is None, client.err
    return clients


def split(clients, units):
    """What each has of the progress of all while the slowest does `units`."""
    until(
        lambda: all(progress(client) > WARM for client in runs(*clients)), 120, "the programs run"
    )
    before = [progress(client) for client in clients]
    until(
        lambda: min(progress(client) - start for client, start in zip(runs(*clients), before))
        >= units,
        200,
        "progress",
    )
    gained = [progress(client) - start for client, start in zip(clients, before)]
    return [one / sum(gained) for one in gained]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


ALL = ("--max-share", "100%", "--max-priority", "high")  # what a client may ask for


class Sharing(unittest.TestCase):
    def tearDown(self):
        for client in self.clients:
            client.kill()

    def setUp(self):
        self.clients = []

    def tenants(self, server, *wants):
        self.clients += [tenant(server, **each) for each in wants]
        return self.clients

    def test_two_programs_get_their_shares(self):
        with Server(*ALL) as server:
            small, large = split(self.tenants(server, {"share": "25%"}, {"share": "75%"}), 60)
            self.assertAlmostEqual(small, 0.25, delta=0.05)
            self.assertAlmostEqual(large, 0.75, delta=0.05)

    def test_shares_hold_where_time_is_measured_by_events(self):
        """As on a driver that keeps no count: the CPU device does not say what it used."""
        with Server(*ALL, environment={"FARCALL_CPU_DEVICE_TIME": "off"}) as server:
            small, large = split(self.tenants(server, {"share": "25%"}, {"share": "75%"}), 60)
            self.assertAlmostEqual(small, 0.25, delta=0.08)
            self.assertAlmostEqual(large, 0.75, delta=0.08)

    # Equals get half each. How much more is the higher one's depends on how soon it is back with work: other load of the machine
    # delays it, and what it leaves is the lower one's (an idle machine: 0.9; two builds beside it: 0.7).
    ABOVE = 0.62

    def test_a_higher_class_keeps_the_device(self):
        with Server(*ALL) as server:
            high, low = split(self.tenants(server, {"priority": "high"}, {"priority": "low"}), 8)
            self.assertGreater(high, self.ABOVE)
            self.assertGreater(low, 0.02, "what is kept for lower classes")

    def test_a_higher_class_keeps_it_though_it_waits(self):
        with Server(*ALL) as server:
            high = Client(server.url, "progress", "1", environment={"FARCALL_PRIORITY": "high"})
            self.clients.append(high)
            until(lambda: progress(*runs(high)) > WARM, 120, "it runs")
            (low,) = self.tenants(server, {"priority": "low"})[-1:]
            self.assertGreater(split([high, low], 8)[0], self.ABOVE)

    def test_one_alone_stays_below_its_limit(self):
        def work(**wants):
            """CPU seconds of the worker for a unit of progress, and units a second."""
            with Server(*ALL) as server:
                client = self.tenants(server, wants)[-1]
                until(lambda: progress(*runs(client)) > WARM, 120, "the program runs")
                (worker,) = server.workers()
                start, used, done = time.monotonic(), cpu_seconds(worker), progress(client)
                until(lambda: progress(*runs(client)) - done >= 60, 200, "progress")
                units = progress(client) - done
                return (cpu_seconds(worker) - used) / units, units / (time.monotonic() - start)

        # What a unit costs shows without a limit: a worker that waits also looks after its link. Other load of the machine can only
        # lower what is then left of the device.
        cost_of_a_unit, _ = work()
        _, units_a_second = work(limit="20%")
        # Wide, for what a processor does in two runs differs: a limit that is not kept is far outside.
        self.assertLess(units_a_second * cost_of_a_unit / os.cpu_count(), 0.28)

    def busy(self, server, *command, **wants):
        environment = {f"FARCALL_{name.upper()}": value for name, value in wants.items()}
        client = Client(
            server.url, "busy", *command, stdin=subprocess.PIPE, environment=environment
        )
        self.clients.append(client)
        return client

    def figures(self, client):
        """Of one that has done its work and still is there: nanoseconds in which its kernels ran, and of the longest, by the device's clock;
        and of all of it by the host's."""
        until(lambda: client.out or client.process.poll() is not None, 200, "it is done")
        self.assertTrue(client.out, client.err)
        return map(int, client.out[0].split())

    def charged(self, control, at_least):
        """What the ledger says of the only vGPU there is, once all of it has been told of; the same by `farcall top`, a moment later."""

        def told(*command):
            done = subprocess.run(
                [FARCALL, *command, "--json", "--control", control],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            (vgpu,) = json.loads(done.stdout)["vgpus"]
            return int(vgpu["devices"][0]["device_ns"])

        until(lambda: told("ps") >= at_least, 60, f"{at_least} ns, {told('ps')} are charged")
        before, by_top, after = told("ps"), told("top", "--views", "1"), told("ps")
        self.assertTrue(before <= by_top <= after, (before, by_top, after))
        return after

    def test_a_limit_is_of_the_time_in_which_anything_runs(self):
        """A grid of one block takes one processor, and the device's time all the same; what runs on two streams takes it once."""
        for blocks, streams, companions in ((1, 1, 0), (8, 1, 0), (1, 2, 1)):
            with (
                self.subTest(blocks=blocks, streams=streams),
                tempfile.TemporaryDirectory() as folder,
            ):
                control = pathlib.Path(folder, "control.sock")
                with Server(*ALL, "--control", str(control)) as server:
                    begun = time.monotonic_ns()
                    client = self.busy(
                        server, blocks, streams, 300, 40000 // blocks, companions, limit="30%"
                    )
                    ran, longest, passed = self.figures(client)
                    # The bound of docs/internals/sharing.md; what is outstanding are four milliseconds as predicted, on a busy machine of some kernels.
                    self.assertLessEqual(ran, 0.3 * passed + 30e6 + 8 * longest)
                    charged = self.charged(control, ran)
                    self.assertLessEqual(charged, time.monotonic_ns() - begun)
                    client.kill()

    def test_processes_of_a_vgpu_are_charged_for_the_time_in_which_any_of_them_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            control = pathlib.Path(folder, "control.sock")
            with Server(*ALL, "--control", str(control)) as server:
                begun = time.monotonic_ns()
                clients = [
                    self.busy(server, 1, 1, 600, 40000, share="50%", vgpu="both") for _ in range(2)
                ]
                ran = max(list(self.figures(client))[0] for client in clients)
                charged = self.charged(
                    control, 0.9 * ran
                )  # each end is placed where its message arrived
                self.assertLessEqual(charged, time.monotonic_ns() - begun)

    def test_a_lone_tenant_is_lent_what_is_idle(self):
        with Server(*ALL) as server:
            small, large = self.tenants(server, {"share": "10%"}, {"share": "90%"})
            split(self.clients, 10)
            large.kill()
            done = progress(small)
            until(lambda: progress(*runs(small)) - done >= 60, 200, "progress alone")

    def test_by_default_nobody_takes_most_of_a_device_or_a_higher_class(self):
        with Server() as server:
            for wants, why in (
                ({"FARCALL_SHARE": "60%"}, "share: asked 60%, at most 50% here"),
                ({"FARCALL_PRIORITY": "high"}, "priority: asked high, at most normal here"),
            ):
                client = run(server.url, "progress", environment=wants)
                self.assertNotEqual(client.process.returncode, 0)
                self.assertIn(why, "\n".join(client.err))

    def test_requests_beyond_the_policy_are_refused(self):
        with Server(
            "--max-share", "50%", "--max-limit", "80%", "--max-priority", "normal"
        ) as server:
            for wants, why in (
                ({"share": "60%"}, "share: asked 60%, at most 50% here"),
                ({"limit": "90%"}, "limit: asked 90%, at most 80% here"),
                ({"priority": "high"}, "priority: asked high, at most normal here"),
            ):
                client = run(
                    server.url,
                    "progress",
                    environment={f"FARCALL_{k.upper()}": v for k, v in wants.items()},
                )
                self.assertNotEqual(client.process.returncode, 0)
                self.assertIn(why, "\n".join(client.err))
            (first,) = self.tenants(server, {"share": "50%"})
            until(lambda: progress(*runs(first)) > 0, 120, "the first runs")
            second = tenant(server, share="30%")
            self.clients.append(second)
            until(lambda: progress(*runs(second)) > 0, 120, "the second runs")
            third = run(server.url, "progress", environment={"FARCALL_SHARE": "30%"})
            self.assertIn("share: asked 30%, 20% of the device is left", "\n".join(third.err))


if __name__ == "__main__":
    unittest.main()
