# SPDX-License-Identifier: Apache-2.0
"""A worker that was taken over, inside its whole sandbox, against the supervisor and another session
(hostile_device.cc)."""

import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import unittest

from harness import FARCALL, INSTRUMENTED, SERVER_BUILD, Client, Server, run, stat_fields, until
from isolation_test import CGROUPS_LACK

HOSTILE = SERVER_BUILD / "tests/security/hostile/libcuda.so.1"
MIB = 1 << 20


def progress(client):
    return int(client.out[-1]) if client.out else 0


class HostileWorker(unittest.TestCase):
    FLAGS = ()

    def setUp(self):
        self.caches = pathlib.Path(tempfile.mkdtemp(prefix="farcall-hostile-"))
        # The tenant's, where its worker may write.
        self.folder = self.caches / "tenants" / hashlib.sha256(b"open").hexdigest()[:32]
        self.folder.mkdir(parents=True)
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.kill()
        shutil.rmtree(self.caches, ignore_errors=True)

    def server(self, *flags, environment=None):
        chosen = {
            "FARCALL_TEST_HOSTILE": "1",
            "CUDA_CACHE_PATH": str(self.caches),
            **(environment or {}),
        }
        # Its library looks for what to do as it is initialised: the session has to be there by then.
        return Server("--warm-workers", 0, *flags, device=HOSTILE, environment=chosen)

    def said(self):
        path = self.folder / "said"
        return path.read_text() if path.exists() else ""

    def status(self):
        """What `farcall ps` says of a server with this control socket."""
        ps = [FARCALL, "ps", "--json", "--control", self.caches / "control.sock"]
        told = subprocess.run(ps, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(told.stdout)

    def victim(self, server, **wants):
        client = Client(
            server.url,
            "progress",
            environment={f"FARCALL_{name.upper()}": text for name, text in wants.items()},
        )
        self.clients.append(client)
        until(lambda: progress(client) > 4, 60, "the victim runs")
        return client

    def attack(self, server, what, **wants):
        (self.folder / "go").write_text(what)
        client = Client(
            server.url,
            "hold",
            1,
            stdin=subprocess.PIPE,
            environment={f"FARCALL_{name.upper()}": text for name, text in wants.items()},
        )
        self.clients.append(client)
        until((self.folder / "taken").exists, 30, "the attacker's worker is up")
        return client

    @staticmethod
    def rss(server):
        for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def hostile_pid(self):
        return int(self.said().split("pid ")[1].split()[0])

    def is_gone(self):
        """The attacker's worker; its client may have tried again meanwhile, with another."""
        fields = stat_fields(self.hostile_pid())
        return fields is None or fields[1] == "Z"

    # Of a session that the attacker's client has begun anew: its worker's control socket, its standard error and two
    # processes' descriptors.
    NEW_SESSION = 4

    @staticmethod
    def descriptors(server):
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    def starts(self, server, count=7):
        """Seconds of whole programs, each with a session of its own."""
        took = []
        for _ in range(count):
            start = time.monotonic()
            client = run(server.url, "hold", 1)
            self.assertEqual(client.process.returncode, 0, client.err)
            took.append(time.monotonic() - start)
        return took

    def check_harmless(self, what, seconds=4.0, logs=""):
        """The attack goes on while the victim works and others come, until the server logs that."""
        with self.server() as server:
            victim = self.victim(server)
            calm = statistics.median(self.starts(server))
            memory = self.rss(server)
            self.attack(server, what)
            done = progress(victim)
            end = time.monotonic() + seconds
            took = []
            while time.monotonic() < end:
                took += self.starts(server, 1)
            self.assertLess(
                statistics.median(took), calm + 1.0, f"sessions start; calm: {calm:.2f} s"
            )
            until(lambda: progress(victim) > done + 4, 30, "the victim goes on")
            if not INSTRUMENTED:
                self.assertLess(self.rss(server), memory + 24 * MIB)
            self.assertIsNone(victim.process.poll(), victim.err)
            until(lambda: logs in server.log_text(), 60, f"the log says '{logs}'")
            return server.log_text()

    def test_any_message_at_any_rate(self):
        self.check_harmless("flood")

    def test_it_changes_no_image(self):
        with tempfile.TemporaryDirectory() as cache:
            images = lambda: {
                path: (path.read_bytes(), path.stat().st_mtime_ns)
                for path in pathlib.Path(cache, "server").glob("*/*")
                if len(path.name) == 64
            }
            with self.server(environment={"FARCALL_CACHE_DIR": cache}) as server:
                victim = self.victim(server)  # of the same tenant
                kept = until(images, 20, "its images are kept")
                memory, files = self.rss(server), self.descriptors(server)
                self.attack(server, "images")
                until(lambda: "asked" in self.said(), 30, "the attack goes on")
                done = progress(victim)
                self.starts(server, 3)
                until(lambda: progress(victim) > done + 20, 60, "the victim goes on")
                self.assertEqual(
                    {path: content for path, (content, _) in images().items()},
                    {path: content for path, (content, _) in kept.items()},
                )
                self.assertLess(self.rss(server), memory + 24 * MIB)
                os.kill(self.hostile_pid(), signal.SIGKILL)
                # One of its files, of 1 GiB, is read to its end, at a low priority.
                until(
                    lambda: self.descriptors(server) <= files + self.NEW_SESSION,
                    90,
                    "what it sent is closed",
                )
            said = self.said()
            self.assertIn("sees an image", said)
            for what in ("planted", "opened for writing", "deleted", "renamed"):
                self.assertNotIn(what, said)

    def test_names_without_end(self):
        log = self.check_harmless("names", 6.0)
        self.assertNotIn("\x1b", log)
        self.assertLess(len(log), 4 * MIB)

    def test_questions_whose_answers_are_not_read(self):
        self.check_harmless("deaf", 2.0)

    def test_a_flood_on_the_standard_error(self):
        # The thread that reads it gives way to all others.
        log = self.check_harmless("stderr", logs="lines of its standard error are left out")
        self.assertIn("wrote", self.said(), "nobody keeps it waiting")
        self.assertLess(len(log), 2 * MIB)
        self.assertNotIn("\x1b", log)
        self.assertNotIn("\r", log)
        self.assertIn("\\x1b]0;owned", log)
        for line in log.splitlines():
            if "forged" in line or "xxxx" in line:
                self.assertRegex(
                    line, r"^\S+ warn farcall-worker: session \d+ \(\S+@\S+ pid \d+ .*?\): "
                )
                self.assertLess(len(line), 4096)

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's allocator takes the pointer that glibc aborts on")
    def test_the_last_words_of_a_crash(self):
        with self.server() as server:
            self.attack(server, "heap")
            until(
                lambda: "the worker crashed: Aborted" in server.log_text(), 30, "its end in the log"
            )
            until(lambda: "): free(): invalid pointer" in server.log_text(), 10, "and its cause")

    def shut_out(self, what, why):
        with self.server() as server:
            victim = self.victim(server)
            files = self.descriptors(server)
            attacker = self.attack(server, what)
            until(lambda: why in server.log_text(), 20, f"{why!r} in the log")
            attacker.kill()
            until(self.is_gone, 20, "its worker is gone")
            until(
                lambda: self.descriptors(server) <= files + self.NEW_SESSION,
                20,
                "its descriptors are closed",
            )
            done = progress(victim)
            until(lambda: progress(victim) > done + 4, 30, "the victim goes on")

    def test_messages_that_are_not_a_workers(self):
        self.shut_out("supervisors-type", "not a message of a worker")

    def test_messages_of_another_size(self):
        self.shut_out("short", "not a message of a worker")

    def test_messages_that_are_malformed_in_one_place(self):
        for what, why in [
            ("other-version", "version 64514 of control messages"),
            ("other-magic", "version 1 of control messages"),
            ("unknown-type", "type 32533: not a message of a worker"),
            ("wrong-enum", "with wrong fields"),
            ("cut", "with wrong fields"),
            ("trailing", "with wrong fields"),
            ("too-long", "4097 bytes, longer than any message"),
        ]:
            with self.subTest(what):
                self.shut_out("malformed-" + what, why)

    def test_descriptors_that_no_message_carries(self):
        self.shut_out("needless-descriptor", "may not carry")

    def test_more_descriptors_than_one(self):
        self.shut_out("many-descriptors", "may not carry")

    def test_descriptors_of_another_kind(self):
        self.shut_out("pipe", "may not carry")

    def lingers(self, what):
        """Closing the attacker's sockets would wait a minute each; nobody else does."""
        with self.server() as server:
            victim = self.victim(server)
            files = self.descriptors(server)
            attacker = self.attack(server, what)
            attacker.process.send_signal(signal.SIGSTOP)  # it reads nothing
            (self.folder / "stopped").touch()
            until(lambda: "may not carry" in server.log_text(), 30, "it has sent them")
            self.assertIn("lingers 1", self.said())
            done, start = progress(victim), time.monotonic()
            self.starts(server, 3)
            until(lambda: progress(victim) > done + 4, 30, "the victim goes on")
            self.assertLess(time.monotonic() - start, 15)
            until(
                lambda: self.descriptors(server) <= files + self.NEW_SESSION,
                30,
                "its descriptors are closed",
            )

    def test_lingering_sockets(self):
        self.lingers("linger")

    def test_lingering_sockets_in_place_of_memory(self):
        self.lingers("linger-share")

    def test_descriptors_have_a_budget(self):
        with self.server() as server:
            victim = self.victim(server)
            files = self.descriptors(server)
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
            attacker = self.attack(server, "share")
            until(lambda: "done" in self.said(), 60, "it has shared all it can")
            until(lambda: self.descriptors(server) >= files + 128, 10, "an eighth is the vGPU's")
            self.assertLess(self.descriptors(server), files + 140, "and no more")
            self.starts(server, 2)
            self.assertIsNone(victim.process.poll(), victim.err)
            attacker.kill()
            os.kill(self.hostile_pid(), signal.SIGKILL)
            until(
                lambda: self.descriptors(server) <= files + self.NEW_SESSION,
                20,
                "they are closed with the session",
            )

    def leaves_child(self, *flags):
        """A worker that could make a child charges 100 of 128 MiB and dies; returns what has happened by the time that its session is over."""
        server = self.server(
            "--worker-calls",
            "report",
            "--mem",
            "128MiB",
            "--control",
            self.caches / "control.sock",
            *flags,
        )
        self.addCleanup(server.stop)
        attacker = self.attack(server, "child", vgpu="kept")
        until(lambda: " sockets" in self.said(), 30, self.said)
        child = int(self.said().split("child ")[1].split()[0])
        self.addCleanup(lambda: stat_fields(child) and os.kill(child, signal.SIGKILL))
        until(
            lambda: re.search(
                r"session 1 .*ended after .*the worker crashed: Killed", server.log_text()
            ),
            30,
            server.log_text,
        )
        attacker.kill()
        return server, child

    def test_a_child_that_keeps_the_sockets_keeps_no_charges(self):
        server, child = self.leaves_child()
        self.assertIsNotNone(stat_fields(child), "it lives")
        self.assertRegex(self.said(), r"child \d+ keeps [1-9]")
        status = self.status()
        pids = [session["worker_pid"] for vgpu in status["vgpus"] for session in vgpu["sessions"]]
        self.assertNotIn(self.hostile_pid(), pids)
        client = run(server.url, "hold", 100, environment={"FARCALL_VGPU": "kept"})
        self.assertEqual(client.process.returncode, 0, client.err)
        self.assertIsNotNone(stat_fields(child), "it still lives")

    @unittest.skipIf(CGROUPS_LACK, CGROUPS_LACK)
    def test_a_child_dies_with_its_workers_cgroup(self):
        _, child = self.leaves_child("--worker-memory", "6GiB")
        until(lambda: (stat_fields(child) or (0, "Z"))[1] == "Z", 20, "the child is gone")

    def waited(self, client):
        """(ns since the server began, ns of them that the client's vGPU waited for others' turns)."""
        status = self.status()
        [vgpu] = [
            vgpu
            for vgpu in status["vgpus"]
            if client.process.pid in [session["pid"] for session in vgpu["sessions"]]
        ]
        waits = {wait["reason"]: int(wait["ns"]) for wait in vgpu["devices"][0]["waits"]}
        return int(status["uptime_ms"]) * 10**6, waits["fair"]

    def leases(self, what):
        """An attacker and a victim with half each. By the server's clock, whatever else this machine does, the victim
        waits for the attacker's turns for two thirds of the time at most; seven eighths allow for turns that are cut
        by the ends of what is measured."""
        control = self.caches / "control.sock"
        with self.server("--max-share", "100%", "--control", control) as server:
            victim = self.victim(server, share="50%")
            self.attack(server, what, share="50%")
            time.sleep(3)  # the first turns are the longest
            begun, waited_before = self.waited(victim)
            done = progress(victim)
            until(lambda: progress(victim) > done + 120, 120, "the victim beside the attacker")
            ended, waited = self.waited(victim)
            self.assertGreater(waited, waited_before, "the attacker takes turns")
            self.assertLess(waited - waited_before, (ended - begun) * 7 / 8)

    def test_a_lease_that_is_not_used(self):
        self.leases("lease-zero")

    def test_a_lease_that_is_hardly_used(self):
        self.leases("lease-little")

    def test_a_device_that_is_said_to_be_full(self):
        with self.server("--oversubscribe", "1.5", "--log-level", "debug") as server:
            idle = Client(server.url, "hold", 64, stdin=subprocess.PIPE)
            self.clients.append(idle)
            idle.wait_line("held")
            victim = self.victim(server)
            self.attack(server, "full")
            done = progress(victim)
            until(lambda: progress(victim) > done + 20, 60, "the victim goes on")
            self.starts(server, 3)
            self.assertNotIn("left the device", server.log_text())


if __name__ == "__main__":
    unittest.main()
