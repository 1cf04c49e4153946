#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Network budgets: bytes a second of a vGPU, seen by an observer outside our counters. The bound is one-sided: a slow
machine moves fewer bytes in the same time, never more."""

import ctypes.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from harness import FARCALL, SERVE, Client, Server, run, until

MIB = 1 << 20


class Network(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.control = pathlib.Path(folder.name) / "control.sock"
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.kill()

    def farcall(self, *command, code=0):
        said = subprocess.run(
            [FARCALL, *command, "--control", self.control], capture_output=True, text=True
        )
        self.assertEqual(said.returncode, code, said.stderr)
        return said.stdout + said.stderr

    def vgpus(self):
        return json.loads(self.farcall("ps", "--json"))["vgpus"]

    def test_a_budget_bounds_the_bytes_and_nobody_elses(self):
        rate, copied = 4_000_000, 8 * MIB  # up and down
        with Server() as server:
            start = time.monotonic()
            limited = Client(
                server.url, "big_copy", copied // MIB, environment={"FARCALL_NET": "4MB/s"}
            )
            self.clients.append(limited)
            until(lambda: server.workers(), 60, "its session")
            free = run(server.url, "big_copy", copied // MIB)
            self.assertEqual(free.out, ["right"], free.err)
            self.assertEqual(limited.wait(), 0, limited.err)
            self.assertEqual(limited.out, ["right"])
            seconds = time.monotonic() - start
            # Half a second's worth for the burst, what is lent and the log's debt.
            self.assertLess(2 * copied, rate * (seconds + 0.5))

    def test_it_is_changed_and_shown_while_it_runs(self):
        with Server("--control", str(self.control), "--max-net", "1GB/s") as server:
            client = Client(server.url, "progress", environment={"FARCALL_NET": "50MB/s"})
            self.clients.append(client)
            until(lambda: client.out, 120, "the program runs")
            until(
                lambda: int(self.vgpus()[0]["net_bytes_in"]) > 0
                and int(self.vgpus()[0]["net_bytes_out"]) > 0,
                30,
                "its bytes",
            )
            (vgpu,) = self.vgpus()
            self.assertEqual(vgpu["net_bytes_per_s"], "50000000")
            self.assertIn("of 20MB/s", self.farcall("quota", "set", vgpu["id"], "--net", "20MB/s"))
            self.assertEqual(self.vgpus()[0]["net_bytes_per_s"], "20000000")
            self.assertIn(
                "the server allows 1000MB/s",
                self.farcall("quota", "set", vgpu["id"], "--net", "2GB/s", code=1),
            )
            self.assertIn(
                "write 100MB/s", self.farcall("quota", "set", vgpu["id"], "--net", "fast", code=2)
            )
            self.assertEqual(self.vgpus()[0]["net_bytes_per_s"], "20000000")
            self.farcall("quota", "set", vgpu["id"], "--net", "0")
            self.assertEqual(self.vgpus()[0]["net_bytes_per_s"], "1000000000")
            done = int(client.out[-1])
            until(lambda: int(client.out[-1]) > done + 10, 120, "it goes on")

    def test_what_cannot_be_is_refused(self):
        with Server("--max-net", "10MB/s") as server:
            for wants, why in (
                ("20MB/s", "network: asked 20MB/s, the server allows 10MB/s"),
                ("fast", "write 100MB/s"),
                ("10B/s", "at least 100KB/s"),
            ):
                client = run(server.url, "progress", environment={"FARCALL_NET": wants})
                self.assertNotEqual(client.process.returncode, 0)
                self.assertIn(why, "\n".join(client.err))
        tried = subprocess.run(
            [SERVE, "serve", "--listen", "tcp://127.0.0.1:0", "--max-net", "much"],
            capture_output=True,
            text=True,
        )
        self.assertEqual((tried.returncode, tried.stderr.count("\n")), (2, 1), tried.stderr)


class Congestion(unittest.TestCase):
    """TCP congestion control by name, on both sides."""

    def chosen(self):
        allowed = (
            pathlib.Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
        )
        return next(
            (name for name in allowed if name != "reno"), None
        )  # reno is what the loopback has anyway

    def test_a_client_takes_the_one_that_it_is_told(self):
        name = self.chosen()
        if name is None:
            self.skipTest("the kernel has one alone")
        with Server() as server:
            for environment, used in (({}, "reno"), ({"FARCALL_TCP_CONGESTION": name}, name)):
                client = run(
                    server.url, "steps", 2, 0, 1, environment={"FARCALL_LOG": "info", **environment}
                )
                self.assertEqual(client.process.returncode, 0, client.err)
                [line] = [line for line in client.err if "connected to" in line]
                self.assertRegex(line, rf"1 devices, 2 lanes, [0-9.]+ ms, {used}\)$")

    def test_a_client_says_which_there_are(self):
        with Server() as server:
            client = run(server.url, "steps", 1, environment={"FARCALL_TCP_CONGESTION": "pigeon"})
        self.assertNotEqual(client.process.returncode, 0)
        [line] = [line for line in client.err if "pigeon" in line]
        self.assertIn("FARCALL_TCP_CONGESTION: 'pigeon' is no congestion control", line)
        self.assertIn("reno", line)

    def config(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_a_server_uses_it_for_its_connections(self):
        name = self.chosen()
        if name is None or shutil.which("ss") is None:
            self.skipTest("no other congestion control, or no `ss` to see it (package iproute2)")
        with Server("--config", self.config(f'tcp_congestion = "{name}"\n')) as server:
            client = Client(server.url, "steps", 400, 5, 1)
            client.wait_line("step 3")
            seen = subprocess.run(
                ["ss", "-tinH", "sport", "=", f":{server.port}"],
                capture_output=True,
                text=True,
                check=True,
            )
            client.kill()
        used = [
            line.split()[0] for line in seen.stdout.splitlines() if line.startswith(("\t", " "))
        ]
        self.assertEqual(used, [name] * 3, seen.stdout)  # the log and two lanes

    def test_a_server_does_not_start_with_another(self):
        done = subprocess.run(
            [
                SERVE,
                "serve",
                "--device",
                "dry",
                "--listen",
                "tcp://127.0.0.1:0",
                "--config",
                self.config('tcp_congestion = "pigeon"\n'),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("tcp_congestion: 'pigeon' is no congestion control", done.stderr)


ROUND = """
import ctypes, sys
cuda, count = ctypes.CDLL("libcuda.so.1"), 8 << 20
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(count)) == 0
letters = bytes(range(16)) * (count // 16)
host, back = ctypes.create_string_buffer(letters, count), ctypes.create_string_buffer(count)
assert cuda.cuMemcpyHtoD_v2(address, host, ctypes.c_size_t(count)) == 0
assert cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(count)) == 0
assert back.raw == letters
"""
BULK_BYTES = 8 << 20


class Compression(unittest.TestCase):
    """Bulk data that crosses smaller. Within a host it is not compressed unless a client insists."""

    def bytes_out(self, server, **environment):
        client = run(server.url, sys.executable, "-c", ROUND, environment=environment)
        self.assertEqual(client.process.returncode, 0, client.err)
        return client.stats()["bytes_out"]

    def setUp(self):
        if ctypes.util.find_library("zstd") is None:
            self.skipTest("no libzstd.so.1")

    def test_a_client_may_insist(self):
        with Server() as server:
            self.assertGreater(self.bytes_out(server), BULK_BYTES)
            self.assertLess(self.bytes_out(server, FARCALL_COMPRESSION="always"), BULK_BYTES // 4)
            self.assertGreater(self.bytes_out(server, FARCALL_COMPRESSION="off"), BULK_BYTES)

    def test_a_server_may_not_want_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('compression = "off"\n')
            config.flush()
            with Server("--config", config.name) as server:
                self.assertGreater(self.bytes_out(server, FARCALL_COMPRESSION="always"), BULK_BYTES)

    def test_what_cannot_be_is_refused(self):
        with Server() as server:
            client = run(server.url, "steps", 1, environment={"FARCALL_COMPRESSION": "lots"})
        self.assertNotEqual(client.process.returncode, 0)
        [line] = [line for line in client.err if "lots" in line]
        self.assertIn("must be auto, off or always", line)


if __name__ == "__main__":
    unittest.main()
