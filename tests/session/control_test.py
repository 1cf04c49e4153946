# SPDX-License-Identifier: Apache-2.0
"""The control service: what farcall ps and top show, what farcall quota changes, who may ask, and that it costs the server nothing."""

import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request

from harness import BUILD, FARCALL, Server, Teller, run, until

MIB = 1 << 20
CONTROL = BUILD / "libexec/farcall/farcall-control"


class Control(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "control.sock")

    def serve(self, *flags, **options):
        server = Server("--control", str(self.path), *flags, **options)
        self.addCleanup(server.stop)
        return server

    def teller(self, server, **environment):
        teller = Teller(server, **environment)
        self.addCleanup(teller.end)
        return teller

    def farcall(self, *command, code=0):
        done = subprocess.run(
            [FARCALL, *command, "--control", self.path], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, code, done.stderr)
        if code:
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
        return done.stderr if code else done.stdout

    def status(self):
        return json.loads(self.farcall("ps", "--json"))

    def vgpu(self, index=0):
        return self.status()["vgpus"][index]

    def test_what_runs_is_shown(self):
        server = self.serve("--mem", "256MiB")
        self.assertEqual(self.farcall("ps"), "no sessions\n")
        teller = self.teller(server, FARCALL_VGPU="the token of this test")
        self.assertEqual(teller.say(f"take {64 * MIB}"), "code 0")
        status = self.status()
        self.assertEqual(
            (status["device_kind"], status["sessions_started"], len(status["vgpus"])),
            ("cpu", "1", 1),
        )
        vgpu = status["vgpus"][0]
        session, memory = vgpu["sessions"][0], vgpu["devices"][0]
        self.assertEqual(session["pid"], teller.client.process.pid)
        self.assertIn(session["worker_pid"], server.workers())
        self.assertEqual(memory["quota_bytes"], str(256 * MIB))
        self.assertGreaterEqual(int(memory["used_bytes"]), 64 * MIB)
        self.assertEqual(memory["charged_bytes"], status["devices"][0]["memory_charged_bytes"])
        # A token lets its holder in, so it is shown to nobody.
        self.assertNotIn("the token of this test", json.dumps(status))
        self.assertIn(vgpu["id"], self.farcall("ps"))
        views = self.farcall("top", "--views", "2", "--interval", "0.1")
        self.assertEqual(views.count(f"farcall {status['version']} on"), 2)
        teller.end()
        until(lambda: self.status()["vgpus"] == [], what="the session is gone")

    def test_processes_of_one_token_are_one_vgpu(self):
        server = self.serve()
        first, second = (self.teller(server, FARCALL_VGPU="one") for _ in range(2))
        self.teller(server)
        for teller in (first, second):
            teller.say(f"take {MIB}")
        self.assertEqual(sorted(len(vgpu["sessions"]) for vgpu in self.status()["vgpus"]), [1, 2])

    def test_memory_is_changed_while_it_runs(self):
        server = self.serve("--mem", "256MiB")
        teller = self.teller(server, FARCALL_MEM="128MiB")
        name = self.vgpu()["id"]
        self.assertEqual(teller.say(f"take {96 * MIB}"), "code 0")
        self.assertEqual(teller.say(f"take {96 * MIB}"), "code 2")
        self.farcall("quota", "set", name, "--mem", "256MiB")
        self.assertEqual(self.vgpu()["devices"][0]["quota_bytes"], str(256 * MIB))
        self.assertEqual(teller.say(f"take {96 * MIB}"), "code 0")
        # Less than it holds: refused, and nothing is changed.
        self.assertIn("it holds", self.farcall("quota", "set", name, "--mem", "128MiB", code=1))
        self.assertEqual(self.vgpu()["devices"][0]["quota_bytes"], str(256 * MIB))
        # What was given back is credit that nothing lies in; it is recalled, not held against it.
        teller.say("drop")
        self.farcall("quota", "set", name, "--mem", "128MiB")
        memory = self.vgpu()["devices"][0]
        self.assertLessEqual(int(memory["charged_bytes"]), 128 * MIB)
        self.assertEqual(teller.say(f"take {96 * MIB}"), "code 2")

    def test_what_limits_of_a_context_take_is_charged(self):
        server = self.serve("--mem", "64MiB")
        teller = self.teller(server)
        charged = int(self.vgpu()["devices"][0]["charged_bytes"])
        for limit in ("heap", "printf"):
            self.assertEqual(teller.say(f"{limit} {65 * MIB}"), "code 2")
        self.assertLessEqual(
            int(self.vgpu()["devices"][0]["charged_bytes"]), charged
        )  # credit may have been recalled
        self.assertEqual(teller.say(f"heap {16 * MIB}"), "code 0")
        self.assertEqual(teller.say(f"printf {8 * MIB}"), "code 0")
        self.assertEqual(teller.say(f"heap {24 * MIB}"), "code 0")
        self.assertEqual(
            teller.say(f"heap {4 * MIB}"), "code 0"
        )  # charged as it was: nobody says what the driver gives back
        self.assertGreaterEqual(int(self.vgpu()["devices"][0]["charged_bytes"]), 32 * MIB)
        self.assertEqual(teller.say(f"take {40 * MIB}"), "code 2")
        self.assertEqual(teller.say(f"heap {24 * MIB}"), "code 0")
        self.assertEqual(teller.say(f"take {24 * MIB}"), "code 0")

    def test_what_makes_no_sense_is_refused_with_one_line_and_changes_nothing(self):
        server = self.serve("--mem", "256MiB", "--max-priority", "normal", "--max-net", "100MB/s")
        self.teller(server, FARCALL_MEM="128MiB", FARCALL_SHARE="20%")
        before = self.vgpu()
        name = before["id"]
        quota = [
            name_
            for name_ in before
            if name_ not in ("sessions", "devices") and not name_.startswith("net_")
        ]
        for flags in (
            ["--mem", "0"],
            ["--mem", "-1"],
            ["--mem", "4XiB"],
            ["--mem", "1GiB"],
            ["--mem", "99999999999TiB"],
            ["--mem", "4 GiB please"],
            ["--share", "101%"],
            ["--share", "30"],
            ["--share", "-5%"],
            ["--share", "nan"],
            ["--share", "inf%"],
            ["--share", "half"],
            ["--limit", "10%"],
            ["--limit", "1e9%"],
            ["--limit", "%"],
            ["--priority", "vip"],
            ["--priority", ""],
            ["--priority", "high"],
            ["--net", "fast"],
            ["--net", "1TB/s"],
            ["--share", "30%", "--mem", "1GiB"],
            ["--mem", "64MiB", "--net", "1TB/s"],
            [],
            ["--shares", "30%"],
        ):
            with self.subTest(flags=flags):
                done = subprocess.run(
                    [FARCALL, "quota", "set", name, *flags, "--control", self.path],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertIn(done.returncode, (1, 2), done)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
                after = self.vgpu()
                self.assertEqual(
                    {each: after[each] for each in quota}, {each: before[each] for each in quota}
                )
                self.assertEqual(after["net_bytes_per_s"], before["net_bytes_per_s"])
                self.assertEqual(
                    after["devices"][0]["quota_bytes"], before["devices"][0]["quota_bytes"]
                )
        for nobody in ("vgpu-00000000", "", "x" * 300):
            self.assertIn(
                "no vGPU is named", self.farcall("quota", "set", nobody, "--mem", "64MiB", code=1)
            )

    def test_device_time_is_changed_while_it_runs(self):
        server = self.serve("--max-limit", "80%")
        self.teller(server)
        self.teller(server, FARCALL_SHARE="50%")
        first, second = self.status()["vgpus"]
        self.assertEqual(
            (first["share_milli"], first["limit_milli"], first["priority"]), (0, 800, "normal")
        )
        self.assertEqual(second["share_milli"], 500)
        self.farcall(
            "quota", "set", first["id"], "--share", "30%", "--limit", "40%", "--priority", "low"
        )
        changed = self.vgpu()
        self.assertEqual(
            (changed["share_milli"], changed["limit_milli"], changed["priority"]), (300, 400, "low")
        )
        # More than is left, more than the server allows, a share above its limit: refused, memory and all.
        for flags in (["--share", "60%", "--mem", "1GiB"], ["--limit", "90%"], ["--share", "45%"]):
            self.farcall(
                "quota",
                "set",
                first["id"],
                *flags,
                code=1 if "60%" in flags or "90%" in flags else 2,
            )
            after = self.vgpu()
            # Sessions and their traffic go on.
            kept = [name for name in changed if name != "sessions" and not name.startswith("net_")]
            self.assertEqual(
                {name: after[name] for name in kept}, {name: changed[name] for name in kept}
            )
        self.farcall("quota", "set", first["id"], "--priority", "normal")
        self.assertEqual((self.vgpu()["share_milli"], self.vgpu()["priority"]), (300, "normal"))

    def test_what_cannot_be_set(self):
        server = self.serve("--mem", "64MiB")
        self.teller(server)
        name = self.vgpu()["id"]
        for flags, words, code in (
            (["vgpu-00000000", "--mem", "1MiB"], ("vgpu-00000000", "farcall ps"), 1),
            ([name], ("nothing to change",), 2),
            ([name, "--mem", "1Gi"], ("1Gi", "4GiB"), 2),
            (
                [name, "--mem", "65MiB"],
                (str(65 * MIB), str(64 * MIB)),
                2,
            ),  # above the server's own ceiling
            ([name, "--mem", "0"], ("memory 0",), 2),
            ([name, "--share", "130%"], ("130%", "30%"), 2),
            ([name, "--priority", "urgent"], ("urgent",), 2),
        ):
            said = self.farcall("quota", "set", *flags, code=code)
            for word in words:
                self.assertIn(word, said)
        self.assertEqual(self.vgpu()["devices"][0]["quota_bytes"], str(64 * MIB))

    def test_nobody_but_the_servers_user_may_ask(self):
        self.serve()
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)
        if os.geteuid() != 0:
            return
        self.path.parent.chmod(0o755)
        self.path.chmod(0o666)  # as if its mode had been loosened: the service looks at who calls
        asked = subprocess.run(
            [
                "setpriv",
                "--reuid",
                "65534",
                "--clear-groups",
                CONTROL,
                "ps",
                "--control",
                self.path,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(asked.returncode, 1, asked.stdout)
        self.assertIn("nobody answers", asked.stderr)

    def test_the_service_is_started_by_the_first_who_asks(self):
        server = self.serve()
        self.assertEqual(server.workers(), [])
        self.status()
        (service,) = server.workers()
        os.kill(service, signal.SIGKILL)
        self.assertEqual(self.status()["vgpus"], [])
        self.assertNotEqual(server.workers(), [service])

    def test_a_service_that_is_slow_to_answer_is_waited_for(self):
        server = self.serve()
        self.status()
        (service,) = server.workers()
        os.kill(service, signal.SIGSTOP)  # as on a machine that is busy while it starts
        goes_on = threading.Timer(3, os.kill, (service, signal.SIGCONT))
        goes_on.start()
        self.addCleanup(goes_on.join)
        self.assertEqual(self.status()["vgpus"], [])

    def test_bytes_that_are_no_call_end_that_connection(self):
        server = self.serve()
        for payload in (b"\0" * 4096, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096, b""):
            with socket.socket(socket.AF_UNIX) as caller:
                caller.connect(str(self.path))
                caller.sendall(payload)
        teller = self.teller(server)
        self.assertEqual(teller.say(f"take {MIB}"), "code 0")
        self.assertEqual(len(self.status()["vgpus"]), 1)

    def test_the_socket_ends_with_the_server(self):
        server = self.serve()
        self.status()
        (service,) = server.workers()
        server.stop()
        self.assertFalse(self.path.exists())
        until(lambda: not pathlib.Path(f"/proc/{service}").exists(), what="the service is gone")
        self.assertIn(str(self.path), self.farcall("ps", code=1))

    def test_a_killed_servers_socket_is_taken_over_a_living_ones_is_not(self):
        first = self.serve()
        first.process.kill()
        first.process.wait()
        self.assertTrue(self.path.exists())
        self.serve()
        self.assertEqual(self.status()["vgpus"], [])
        third = self.serve()
        self.assertIn("another server listens there", third.log_text())
        self.assertEqual(self.status()["vgpus"], [])

    def test_who_had_what_is_written_down(self):
        audit = self.path.parent / "audit.jsonl"
        server = self.serve("--audit", str(audit), "--mem", "64MiB", "--max-sessions", "1")
        teller = self.teller(server, FARCALL_VGPU="the token of this test")
        self.farcall("quota", "set", self.vgpu()["id"], "--mem", "32MiB")
        self.farcall("quota", "set", self.vgpu()["id"], "--limit", "40%", "--priority", "low")
        self.assertEqual(run(server.url, "steps", 1).process.returncode, 3)
        teller.end()
        until(lambda: "session_ended" in audit.read_text(), what="the end is written")
        notes = [json.loads(line) for line in audit.read_text().splitlines()]
        times = [note["time"] for note in notes]
        self.assertEqual(
            [note["event"] for note in notes],
            ["session_started", "quota_set", "quota_set", "session_refused", "session_ended"],
        )
        started, changed, slowed, refused, ended = notes
        self.assertEqual(
            (started["pid"], started["memory_bytes"]), (teller.client.process.pid, [64 * MIB])
        )
        self.assertEqual((changed["vgpu"], changed["memory_bytes"]), (started["vgpu"], 32 * MIB))
        del slowed["time"]  # what was set, and nothing else
        self.assertEqual(
            slowed,
            {"event": "quota_set", "vgpu": started["vgpu"], "limit_milli": 400, "priority": "low"},
        )
        self.assertIn("full", refused["why"])
        self.assertEqual((ended["vgpu"], ended["memory_bytes"]), (started["vgpu"], [32 * MIB]))
        self.assertEqual(sorted(times), times)
        self.assertNotIn("the token of this test", audit.read_text())

    def test_figures_for_prometheus(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = self.serve("--metrics", f"127.0.0.1:{port}")
        teller = self.teller(server)
        teller.say(f"take {64 * MIB}")

        def scraped():
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{port}/metrics", timeout=60
                ) as answer:
                    return answer.read().decode()
            except OSError:
                return ""

        text = until(scraped, what="metrics")
        values = dict(re.findall(r"^(farcall_\w+(?:\{[^}]*\})?) (\S+)$", text, re.M))
        self.assertEqual(values["farcall_sessions"], "1")
        used = [
            float(value)
            for name, value in values.items()
            if name.startswith("farcall_vgpu_memory_used_bytes{")
        ]
        self.assertEqual(len(used), 1)
        self.assertGreaterEqual(used[0], 64 * MIB)
        self.assertIn('device="0"', text)


if __name__ == "__main__":
    if not CONTROL.exists():
        print(f"no {CONTROL}: this build has no control plane")
        sys.exit(77)
    unittest.main()
