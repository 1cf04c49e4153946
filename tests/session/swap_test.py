#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory that leaves the device and comes back: contents, addresses, who waits for whom, what a kill costs."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from harness import BUILD, FARCALL, SERVE, Client, Server, run, until

MIB = 1 << 20
CONTROL = BUILD / "libexec/farcall/farcall-control"
VGPU = {"FARCALL_VGPU": "a-vgpu-of-these-tests"}


class Swap(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "control.sock"

    def serve(self, *flags, memory="128MiB"):
        profile = self.folder / "small.profile"
        profile.write_text(f"memory = {memory}\n")
        server = Server("--control", str(self.path), *flags, device=f"cpu:{profile}")
        self.addCleanup(server.stop)
        return server

    def client(self, server, *command, **options):
        client = Client(server.url, "swapped", *command, stdin=subprocess.PIPE, **options)
        self.addCleanup(client.kill)
        return client

    def farcall(self, *command, code=0):
        done = subprocess.run(
            [FARCALL, *command, "--control", self.path], capture_output=True, text=True, timeout=120
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr if code else done.stdout

    def status(self):
        return json.loads(self.farcall("ps", "--json"))

    def vgpus(self):
        return {vgpu["sessions"][0]["pid"]: vgpu for vgpu in self.status()["vgpus"]}

    def park(self, client, stays=0):
        """All of it leaves but what cannot; what was there."""
        vgpu = self.vgpus()[client.process.pid]
        parked = json.loads(self.farcall("park", vgpu["id"], "--json"))
        memory = parked["devices"][0]
        self.assertEqual({session["memory_state"] for session in parked["sessions"]}, {"parked"})
        self.assertEqual(int(memory["swapped_bytes"]), int(memory["charged_bytes"]) - stays)
        self.assertGreater(int(memory["swapped_bytes"]), 0)
        # A session before this one may still be giving its memory back.
        until(
            lambda: self.status()["devices"][0]["memory_resident_bytes"] == str(stays),
            what=f"{stays} bytes stay",
        )
        return int(memory["swapped_bytes"])

    def go(self, client):
        client.process.stdin.write("go\n")
        client.process.stdin.flush()

    def passes(self, client):
        self.assertEqual(
            (client.wait(), client.out[-1:]), (0, ["done"]), (client.out[-3:], client.err)
        )

    def rounds(self, client, count, stays=0):
        """Parked at each of its pauses."""
        for at in range(count):
            client.wait_line(f"round {at}")
            self.assertIsNone(client.process.poll(), (client.out[-3:], client.err))
            self.park(client, stays)
            self.go(client)
        self.passes(client)

    def test_contents_outlive_any_number_of_moves(self):
        server = self.serve("--park-after", "3600", memory="512MiB")
        for seed in (1, 2, 3):
            self.rounds(self.client(server, "storm", seed, 6), 6)

    def test_pointers_in_memory_and_graphs_stay_good(self):
        server = self.serve("--park-after", "3600")
        self.rounds(self.client(server, "chain", 4), 4)

    def test_host_memory_is_where_it_was(self):
        server = self.serve("--park-after", "3600")
        self.rounds(
            self.client(server, "host", 3), 3, stays=256 << 10
        )  # managed memory counts as the device's

    def test_an_idle_session_leaves_by_itself(self):
        server = self.serve("--park-after", "1")
        client = self.client(server, "storm", 5, 1)
        client.wait_line("round 0")
        until(
            lambda: self.vgpus()[client.process.pid]["sessions"][0]["memory_state"] == "parked",
            60,
            "it is parked",
        )
        self.assertEqual(self.status()["devices"][0]["memory_resident_bytes"], "0")
        self.go(client)
        self.passes(client)

    def test_two_that_need_more_than_there_is_both_finish(self):
        server = self.serve("--oversubscribe", "2", memory="160MiB")
        both = [self.client(server, "work", 144, 12, 100) for _ in range(2)]
        for client in both:
            self.passes(client)
        until(lambda: self.status()["vgpus"] == [], 30, "both have ended")
        swap = self.status()["swap"]
        self.assertGreater(int(swap["outs"]), 0)
        self.assertGreater(int(swap["in_bytes"]), 0)
        self.assertEqual(swap["host_used_bytes"], "0", "what the ended had is free")

    def test_without_leave_nothing_moves(self):
        server = self.serve()
        client = self.client(server, "many", 4, 8)
        client.wait_line("round 0")
        self.assertIn(
            "start it with --park-after",
            self.farcall("park", self.vgpus()[client.process.pid]["id"], code=1),
        )

    def test_no_more_is_lent_than_was_said(self):
        server = self.serve("--oversubscribe", "1.5")
        counts = []
        for _ in range(2):
            client = self.client(server, "many", 14, 8)
            client.wait_line("round 0")
            counts.append(14 - int(re.search(r"refused (\d+)", "\n".join(client.out)).group(1)))
        self.assertEqual(counts[0], 14)
        lent = int(self.status()["devices"][0]["memory_charged_bytes"])
        self.assertGreater(lent, 128 * MIB)
        self.assertLessEqual(lent, 192 * MIB)
        self.assertIn("the server lends 201326592 in all", server.log_text())

    def test_host_memory_for_it_is_bounded(self):
        server = self.serve("--oversubscribe", "4", "--swap-host-mem", "32MiB")
        first = self.client(server, "many", 12, 8)
        first.wait_line("round 0")
        self.assertIn(
            "swap_host_mem", self.farcall("park", self.vgpus()[first.process.pid]["id"], code=1)
        )
        second = self.client(server, "many", 14, 8)
        second.wait_line("refused")
        self.assertIn("the server swaps 33554432 at most", server.log_text())
        swap = self.status()["swap"]
        self.assertLessEqual(int(swap["host_used_bytes"]), 32 * MIB)

    def test_a_killed_worker_takes_nobody_with_it(self):
        server = self.serve("--oversubscribe", "1.8")
        for _ in range(3):
            # What is killed is moving now, or about to: whatever it was at, the other goes on.
            # The first works until it is killed: it is there when the second comes, however late that is.
            before = int(self.status()["swap"]["outs"])
            first, second = (
                self.client(server, "work", 104, rounds, 150) for rounds in (10000, 20)
            )
            first.wait_line("worked 0")
            until(lambda: int(self.status()["swap"]["outs"]) > before, 120, "something has moved")
            worker = self.vgpus()[first.process.pid]["sessions"][0]["worker_pid"]
            os.kill(worker, signal.SIGKILL)
            self.assertNotEqual(first.wait(), 0)
            self.passes(second)
        until(lambda: self.status()["vgpus"] == [], 30, "all have ended")
        self.assertEqual(self.status()["devices"][0]["memory_charged_bytes"], "0")
        self.assertEqual(self.status()["swap"]["host_used_bytes"], "0")

    def test_what_is_lent_to_others_stays(self):
        server = self.serve("--park-after", "3600", memory="256MiB")
        for what in ("allocation", "pool"):
            client = run(server.url, "lent", what, environment=VGPU)
            self.assertEqual(
                (client.process.returncode, client.out[-1:]),
                (0, ["done"]),
                (client.out, client.err),
            )

    def test_it_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        audit = self.folder / "audit.jsonl"
        server = self.serve(
            "--oversubscribe", "1.8", "--metrics", f"127.0.0.1:{port}", "--audit", str(audit)
        )
        client = self.client(server, "storm", 7, 1)
        client.wait_line("round 0")
        moved = self.park(client)
        self.assertIn("parked", self.farcall("ps"))
        top = self.farcall("top", "--views", "1", "--interval", "0.1")
        self.assertIn("ON+OFF", top)
        self.assertIn("RESIDENT", top)

        def scraped():
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/metrics", timeout=60
                ) as answer:
                    return answer.read().decode()
            except OSError:
                return ""

        text = until(scraped, what="metrics")
        self.assertIn('farcall_swaps_total{direction="out"} 1\n', text)
        self.assertIn(f'farcall_swap_bytes_total{{direction="out"}} {moved}\n', text)
        self.assertRegex(text, r"farcall_vgpu_memory_swapped_bytes\{[^}]*\} " + str(moved))
        self.go(client)
        self.passes(client)
        events = [json.loads(line)["event"] for line in audit.read_text().splitlines()]
        for event in ("swapped_out", "parked", "swapped_in"):
            self.assertIn(event, events)

    def test_senseless_settings(self):
        for flags, words in (
            (["--oversubscribe", "0.5"], "from 1 to 16"),
            (["--oversubscribe", "much"], "such as 1.8"),
            (["--swap-host-mem", "4Gi"], "4GiB"),
            (["--park-after", "soon"], "--park-after"),
        ):
            done = subprocess.run(
                [SERVE, "serve", *flags], capture_output=True, text=True, timeout=60
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if not CONTROL.exists():
        print(f"no {CONTROL}: this build has no control plane")
        sys.exit(77)
    unittest.main()
