#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the driver takes for a session beside its allocations, by NVML's count of processes' memory: a fake of NVML and of the driver
(fakes/) shows what the server does with such answers, not what a GPU would answer."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import FARCALL, SERVE, SERVER_BUILD, Server, Teller, until

MIB = 1 << 20
FAKE_GPU = SERVER_BUILD / "tests/session/fake_gpu/libcuda.so.1"
OUT_OF_MEMORY = "code 2"


class Overhead(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "control.sock"
        self.processes = self.folder / "processes"
        self.counted = {}

    def serve(self, *flags, environment=None):
        # A folder of libraries may be read by the process that asks NVML.
        own = {"FAKE_GPU_PROCESSES": str(self.processes), "FARCALL_LIBRARIES": str(self.folder)}
        environment = own if environment is None else environment
        server = Server(
            "--control", str(self.path), *flags, device=FAKE_GPU, environment=environment
        )
        self.addCleanup(server.stop)
        return server

    def teller(self, server, **environment):
        teller = Teller(server, **environment)
        self.addCleanup(teller.end)
        return teller

    def vgpus(self):
        done = subprocess.run(
            [FARCALL, "ps", "--json", "--control", self.path],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["vgpus"]

    def memory(self, teller):
        """Its vGPU's figures, its session's worker."""
        for vgpu in self.vgpus():
            for session in vgpu["sessions"]:
                if session["pid"] == teller.client.process.pid:
                    return {
                        name: int(value)
                        for name, value in vgpu["devices"][0].items()
                        if name.endswith("bytes")
                    }, session["worker_pid"]
        raise AssertionError("its session is not listed")

    def count(self, teller, beside):
        """NVML counts what the session has allocated, and so many bytes beside that. Returns its vGPU's figures once they are these."""

        def is_so():
            # Anew each time: a worker tells a little later how much of its credit it has spent.
            figures, pid = self.memory(teller)
            self.counted[pid] = figures["used_bytes"] - figures["overhead_charged_bytes"] + beside
            fresh = self.folder / "fresh"
            fresh.write_text(
                "".join(f"{pid} {used}\n" for pid, used in {**self.counted, 1: 77 * MIB}.items())
            )
            os.replace(fresh, self.processes)
            return figures["overhead_bytes"] == beside

        until(is_so, 60, lambda: f"{beside} beside: {self.memory(teller)[0]}")
        return self.memory(teller)[0]

    def free(self, teller):
        return int(teller.say("free").split()[1])

    def test_it_counts_against_the_quota_and_every_view_says_so(self):
        server = self.serve("--mem", "256MiB")
        teller = self.teller(server)
        teller.say(f"take {64 * MIB}")
        self.assertEqual(self.free(teller), 192 * MIB)
        figures = self.count(teller, 50 * MIB)
        self.assertEqual(
            (figures["overhead_charged_bytes"], figures["used_bytes"], figures["quota_bytes"]),
            (50 * MIB, 114 * MIB, 256 * MIB),
        )
        self.assertEqual(self.free(teller), 142 * MIB)
        self.assertEqual(
            teller.say(f"take {142 * MIB}"), "code 0", server.log_text()
        )  # all that is free can be had
        self.assertEqual(teller.say(f"take {2 * MIB}"), OUT_OF_MEMORY)
        self.assertIn(f"{50 * MIB} are contexts and machine code", server.log_text())
        teller.say("drop")
        self.count(teller, 20 * MIB)  # a module went
        self.assertEqual(self.free(teller), 172 * MIB)

    def test_what_does_not_fit_is_charged_when_there_is_room(self):
        server = self.serve("--mem", "128MiB")
        teller = self.teller(server)
        self.assertEqual(teller.say(f"take {100 * MIB}"), "code 0")
        self.count(teller, 60 * MIB)
        # Charged at each reading as far as there is room then: it settles within a few.

        def charged():
            figures = self.memory(teller)[0]
            return figures["overhead_charged_bytes"], figures["charged_bytes"]

        until(
            lambda: charged() == (28 * MIB, 128 * MIB),
            60,
            lambda: f"all there is room for is charged: {charged()}",
        )
        self.assertEqual(self.free(teller), 0)
        teller.say("drop")
        self.count(teller, 60 * MIB)
        until(
            lambda: self.memory(teller)[0]["overhead_charged_bytes"] == 60 * MIB,
            60,
            lambda: f"all is charged: {self.memory(teller)[0]}",
        )
        self.assertEqual(self.free(teller), 68 * MIB)

    def test_the_next_session_knows_what_a_context_takes(self):
        server = self.serve("--mem", "256MiB")
        first = self.teller(server)
        first.say(f"take {2 * MIB}")
        self.count(first, 30 * MIB)
        self.counted.clear()
        second = self.teller(server)
        self.assertEqual(self.free(second), 226 * MIB)  # before anybody was asked about it
        until(
            lambda: self.memory(second)[0]["overhead_charged_bytes"] == 0,
            60,
            lambda: "it had none after all",
        )
        self.assertEqual(self.free(second), 256 * MIB)

    def test_processes_of_one_vgpu_pay_together_and_it_ends_with_them(self):
        server = self.serve("--mem", "256MiB")
        tellers = [self.teller(server, FARCALL_VGPU="one") for _ in range(2)]
        for i, teller in enumerate(tellers):
            teller.say(f"take {10 * MIB}")
        pids = [session["worker_pid"] for session in self.vgpus()[0]["sessions"]]
        self.processes.write_text("".join(f"{pid} {30 * MIB}\n" for pid in pids))
        until(
            lambda: self.memory(tellers[0])[0]["overhead_bytes"] == 40 * MIB,
            60,
            lambda: f"both are known: {self.memory(tellers[0])}",
        )
        self.assertEqual(self.free(tellers[0]), 196 * MIB)
        tellers[1].end()
        until(
            lambda: self.memory(tellers[0])[0]["overhead_charged_bytes"] == 20 * MIB,
            60,
            lambda: f"its own is left: {self.memory(tellers[0])}",
        )
        self.assertEqual(self.free(tellers[0]), 226 * MIB)

    def test_it_may_be_the_hosts(self):
        server = self.serve("--mem", "256MiB", "--overhead", "host")
        teller = self.teller(server)
        teller.say(f"take {64 * MIB}")
        figures = self.count(teller, 50 * MIB)
        self.assertEqual((figures["overhead_charged_bytes"], figures["used_bytes"]), (0, 64 * MIB))
        self.assertEqual(self.free(teller), 192 * MIB)

    def test_a_driver_that_does_not_say_is_said_once(self):
        server = self.serve("--mem", "256MiB", environment={})
        teller = self.teller(server)
        until(lambda: "is not known" in server.log_text(), 60, lambda: server.log_text())
        self.assertEqual(self.free(teller), 256 * MIB)
        self.assertEqual(self.memory(teller)[0]["overhead_bytes"], 0)
        self.assertEqual(server.log_text().count("is not known"), 1)

    def test_who_asks_nvml_may_die(self):
        server = self.serve("--mem", "256MiB")
        teller = self.teller(server)
        teller.say(f"take {2 * MIB}")
        self.count(teller, 30 * MIB)
        for pid in server.workers():
            if b"process-memory" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, 9)
                break
        else:
            self.fail("nobody asks NVML")
        self.count(teller, 40 * MIB)
        teller.end()
        until(
            lambda: not any(
                b"process-memory" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                for pid in server.workers()
            ),
            60,
            lambda: "it ends when nobody is there",
        )

    def test_what_is_neither_is_refused(self):
        for flags in (["--overhead", "nobody"], ["--config", self.folder / "server.toml"]):
            (self.folder / "server.toml").write_text('overhead = "nobody"\n')
            tried = subprocess.run(
                [SERVE, "serve", "--device", "cpu", *flags], capture_output=True, text=True
            )
            self.assertEqual(tried.returncode, 2, tried.stderr)
            self.assertIn("'nobody': write tenant or host", tried.stderr)

    def test_a_software_device_has_none(self):
        with Server("--mem", "64MiB") as server:
            self.assertEqual(self.free(self.teller(server)), 64 * MIB)
            self.assertEqual(len(server.workers()), 1)
            self.assertNotIn("not known", server.log_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
