#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communicators of threads and of processes; ranks that leave, or are on another server."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import harness  # noqa: E402

PROGRAMS = harness.BUILD / "tests/nccl"


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = harness.Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def start(self, name, *words, vgpu="one", server=None, endpoint=None):
        keep = dict(harness.KEPT)
        env = {
            "PATH": "/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/tmp"),
            "FARCALL_VGPU": vgpu,
            "FARCALL_ENDPOINT": endpoint or (server or self.server).url,
            "LD_LIBRARY_PATH": str(harness.BUILD / "lib/farcall"),
            **keep,
        }
        return subprocess.Popen(
            [PROGRAMS / name, *map(str, words)],
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(self, process):
        out, err = process.communicate(timeout=harness.LIMIT_S)
        return process.returncode, out, err

    def all_pass(self, processes):
        for process in processes:
            code, out, err = self.finish(process)
            self.assertEqual((code, out), (0, "PASS\n"), err)


class OneServer(Ranks):
    def test_ranks_that_are_threads(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.all_pass([self.start("collectives", "threads", ranks)])

    def test_ranks_that_are_threads_on_devices_of_their_own(self):
        """Where loading a kernel waits for the device's work, too: which may wait for another rank."""
        with harness.Server(
            environment={"FARCALL_CPU_DEVICES": "2", "FARCALL_CPU_LOADING": "wait"}
        ) as server:
            self.all_pass([self.start("collectives", "threads", 2, 2, server=server)])

    def test_ranks_that_are_processes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.all_pass(
                [self.start("collectives", "rank", i, 2, f"{folder}/id") for i in range(2)]
            )

    def test_contexts_that_init_all_retains_are_released(self):
        program = """
import ctypes
cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
def active():
    flags, state = ctypes.c_uint(), ctypes.c_int()
    assert cuda.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(state)) == 0
    return state.value
assert cuda.cuInit(0) == 0 and active() == 0
for _ in range(2):
    comms = (ctypes.c_void_p * 1)()
    assert nccl.ncclCommInitAll(comms, 1, None) == 0 and active() == 1
    assert nccl.ncclCommDestroy(ctypes.c_void_p(comms[0])) == 0 and active() == 0
comms = (ctypes.c_void_p * 2)(7, 7)
assert nccl.ncclCommInitAll(comms, 2, (ctypes.c_int * 2)(0, 99)) == 4
assert list(comms) == [None, None] and active() == 0
print("PASS")
"""
        self.all_pass([self.start(sys.executable, "-c", program)])

    def test_a_rank_that_dies_is_told_and_the_rest_can_abort(self):
        with tempfile.TemporaryDirectory() as folder:
            stays = self.start("leaves", "stays", f"{folder}/id")
            dies = self.start("leaves", "dies", f"{folder}/id")
            self.assertEqual(self.finish(dies)[0], 9)
            self.all_pass([stays])


class Relayed(Ranks):
    def test_ranks_of_two_accounts_exchange_through_their_clients(self):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [
                self.start("collectives", "rank", i, 2, f"{folder}/id", vgpu=f"account{i}")
                for i in range(2)
            ]
            results = [self.finish(rank) for rank in ranks]
        for code, out, err in results:
            self.assertEqual((code, out), (0, "PASS\n"), err)
            self.assertIn("has no server in common with 1 of 2 ranks", err)

    def test_ranks_on_two_servers(self):
        other = harness.Server()
        self.addCleanup(other.stop)
        with tempfile.TemporaryDirectory() as folder:
            servers = (self.server, other, self.server)
            self.all_pass(
                [
                    self.start("collectives", "rank", i, 3, f"{folder}/id", server=server)
                    for i, server in enumerate(servers)
                ]
            )

    def test_ranks_that_are_threads_on_devices_of_two_servers(self):
        other = harness.Server()
        self.addCleanup(other.stop)
        both = f"{self.server.url},{other.url}"
        code, out, err = self.finish(self.start("collectives", "threads", 2, 2, endpoint=both))
        self.assertEqual((code, out), (0, "PASS\n"), err)
        self.assertIn("has no server in common with 1 of 2 ranks", err)

    def test_a_rank_on_another_server_that_dies_is_told(self):
        other = harness.Server()
        self.addCleanup(other.stop)
        with tempfile.TemporaryDirectory() as folder:
            stays = self.start("leaves", "stays", f"{folder}/id")
            dies = self.start("leaves", "dies", f"{folder}/id", server=other)
            self.assertEqual(self.finish(dies)[0], 9)
            self.all_pass([stays])


if __name__ == "__main__":
    unittest.main()
