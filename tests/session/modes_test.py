#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How vGPUs share a device: `farcall serve --mode`. MPS and MIG by fakes of the control program, of NVML and of the driver
(fakes/): they show what the server does with them, not what a GPU would."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from harness import HERE, SERVE, SERVER_BUILD, Client, Server, run, until

FAKES = HERE / "fakes"
FAKE_GPU = SERVER_BUILD / "tests/session/fake_gpu/libcuda.so.1"


def refused(*flags, **environment):
    """A server that cannot be: its exit code and the one line that says why."""
    tried = subprocess.run(
        [SERVE, "serve", "--listen", "tcp://127.0.0.1:0", *map(str, flags)],
        capture_output=True,
        text=True,
        env=dict(os.environ, **environment),
    )
    lines = [line for line in tried.stderr.splitlines() if "farcall serve:" in line]
    assert len(lines) == 1, tried.stderr
    return tried.returncode, lines[0]


class Modes(unittest.TestCase):
    def setUp(self):
        self.clients = []
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {
            "PATH": f"{FAKES}:{os.environ['PATH']}",
            "FAKE_MPS_TRANSCRIPT": str(self.folder / "transcript"),
            "FAKE_GPU_LOG": str(self.folder / "gpu.log"),
        }

    def tearDown(self):
        for client in self.clients:
            client.kill()

    def start(self, server, vgpu, **environment):
        client = Client(server.url, "progress", environment={"FARCALL_VGPU": vgpu, **environment})
        self.clients.append(client)
        until(lambda: client.out or client.process.poll() is not None, 120, "the program runs")
        if client.process.poll() is not None:
            client.wait()
        self.assertTrue(client.out, client.err)
        return client

    def transcript(self):
        path = self.folder / "transcript"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def commands(self, but=("get_server_list", "get_server_status", "get_client_list")):
        return [
            said["command"] for said in self.transcript() if said["command"].split()[0] not in but
        ]

    def given(self):
        """What processes that loaded the driver had of CUDA's variables."""
        lines = (self.folder / "gpu.log").read_text().splitlines()
        return [dict(word.split("=", 1) for word in line.split()) for line in lines]

    # ---- exclusive

    def test_an_exclusive_device_has_one_vgpu(self):
        with Server("--mode", "exclusive") as server:
            first = self.start(server, "one")
            second = run(server.url, "progress", environment={"FARCALL_VGPU": "another"})
            self.assertNotEqual(second.process.returncode, 0)
            said = "\n".join(second.err)
            self.assertIn("device 0 is exclusive: session 1 (", said)
            self.assertIn(f"pid {first.process.pid} ", said)
            self.start(server, "one")  # the same vGPU may
            for client in self.clients:
                client.kill()
            until(lambda: not server.workers(), 30, "the workers end")
            self.start(server, "another")

    def test_a_mode_may_be_one_devices(self):
        with Server("--mode", "0=exclusive") as server:
            self.start(server, "one")
            self.assertNotEqual(run(server.url, "progress").process.returncode, 0)

    def test_the_configuration_names_modes_too(self):
        config = self.folder / "server.toml"
        config.write_text('mode = "exclusive"\n')
        with Server("--config", str(config)) as server:
            self.start(server, "one")
            self.assertNotEqual(run(server.url, "progress").process.returncode, 0)

    # ---- what cannot be

    def test_what_cannot_be_is_refused_with_one_line(self):
        for mode, why in (
            ("fast", "'fast': write slice, exclusive"),
            ("0=slice,0=mps", "write slice"),
            ("0:mps", "write slice"),
            ("3=exclusive", "there is no device 3, only 1"),
            ("mps", "a cpu device takes slice or exclusive"),
            ("mig", "a cpu device takes slice or exclusive"),
            ("0=mig", "cpu device"),
        ):
            code, line = refused("--device", "cpu", "--mode", mode)
            self.assertEqual(code, 2, line)
            self.assertIn("mode", line)
            self.assertIn(why, line)
        code, line = refused("--device", FAKE_GPU, "--mode", "mps", PATH="/nowhere")
        self.assertEqual(code, 4, line)
        self.assertIn("there is no nvidia-cuda-mps-control on PATH", line)

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_mps_goes_without_worker_users(self):
        code, line = refused(
            "--device",
            FAKE_GPU,
            "--mode",
            "mps",
            "--worker-users",
            "700000-700003",
            **self.environment,
        )
        self.assertEqual(code, 2)
        self.assertIn("clients of one user", line)

    # ---- mps

    @contextlib.contextmanager
    def mps(self, *flags):
        """A server that ends as it should: without sessions, so that it ends its daemon."""
        with Server(
            "--mode", "mps", *flags, device=FAKE_GPU, environment=self.environment
        ) as server:
            yield server
            for client in self.clients:
                client.kill()

    def test_mps_clients_have_their_quota_as_limits(self):
        with self.mps("--mem", "128MiB", "--max-limit", "80%") as server:
            self.start(server, "one", FARCALL_LIMIT="30%", FARCALL_MEM="64MiB")
            self.start(server, "two", FARCALL_PRIORITY="low")
            one, two = self.given()[-2:]
            self.assertEqual(one["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "30")
            self.assertEqual(one["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], f"0={64 + 512}M")
            self.assertNotIn("CUDA_MPS_CLIENT_PRIORITY", one)
            self.assertEqual(two["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "80")
            self.assertEqual(two["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], f"0={128 + 512}M")
            self.assertEqual(two["CUDA_MPS_CLIENT_PRIORITY"], "1")
            self.assertEqual(one["CUDA_MPS_PIPE_DIRECTORY"], self.transcript()[0]["pipes"])
            self.assertEqual(one["CUDA_VISIBLE_DEVICES"], self.transcript()[0]["devices"])
            self.assertTrue(one["CUDA_VISIBLE_DEVICES"].startswith("GPU-"))
            self.assertEqual(
                self.commands(),
                [
                    "set_default_active_thread_percentage 80",
                    f"set_default_device_pinned_mem_limit 0 {128 + 512}M",
                    f"start_server -uid {os.geteuid()}",
                ],
            )
        self.assertTrue(self.commands()[-1].startswith("quit"), self.commands())
        self.assertFalse(pathlib.Path(one["CUDA_MPS_PIPE_DIRECTORY"]).exists())

    def test_one_clients_fault_ends_its_group_and_the_next_starts_anew(self):
        with self.mps() as server:
            both = [self.start(server, name) for name in ("one", "two")]
            pipes = pathlib.Path(self.given()[-1]["CUDA_MPS_PIPE_DIRECTORY"])
            (pipes / "fault").touch()
            for client in both:
                self.assertNotEqual(client.wait(), 0)
                self.assertIn(
                    "MPS: a client of the group has met a fatal fault", "\n".join(client.err)
                )
            # A client waits for the server, but not for as long as a loaded machine may take for each of these programs.
            until(
                lambda: sum(line.startswith("start_server") for line in self.commands()) == 2,
                120,
                "the server is started anew",
            )
            self.start(server, "three")
            said = self.commands()
            self.assertEqual(sum(line.startswith("start_server") for line in said), 2)
            self.assertEqual(sum(line.startswith("shutdown_server") for line in said), 1)
            self.assertIn("its 2 sessions end", server.log_text())

    def test_a_daemon_that_dies_is_started_again(self):
        with self.mps() as server:
            client = self.start(server, "one")
            os.kill(self.transcript()[0]["daemon"], signal.SIGKILL)
            self.assertNotEqual(client.wait(), 0)
            self.assertIn("control daemon has ended", "\n".join(client.err))
            until(
                lambda: len({said["daemon"] for said in self.transcript()}) == 2,
                120,
                "another daemon",
            )
            self.start(server, "two")
            self.assertEqual(len({said["daemon"] for said in self.transcript()}), 2)

    def test_a_killed_server_leaves_no_daemon(self):
        with self.mps() as server:
            daemon = self.transcript()[0]["daemon"]
            server.process.kill()
            server.process.wait()
            until(lambda: not pathlib.Path(f"/proc/{daemon}").exists(), 30, "the daemon ends")

    # ---- mig

    def test_each_instance_is_a_device_and_a_worker_sees_one(self):
        names = ("MIG-11111111-aaaa", "MIG-22222222-bbbb")
        environment = dict(self.environment, FAKE_MIG=f"{names[0]},,{names[1]}")
        with Server(
            "--mode", "mig", "--trust-tenants", device=FAKE_GPU, environment=environment
        ) as server:
            for vgpu in ("one", "two", "one"):
                self.start(server, vgpu)
            self.assertEqual(
                [given["CUDA_VISIBLE_DEVICES"] for given in self.given()[-3:]],
                [names[0], names[1], names[0]],
            )
        with Server(
            "--mode",
            "mig",
            "--trust-tenants",
            "--gpus",
            "MIG-2222",
            device=FAKE_GPU,
            environment=environment,
        ) as server:
            self.start(server, "one")
            self.assertEqual(self.given()[-1]["CUDA_VISIBLE_DEVICES"], names[1])

    def test_no_instance_is_said(self):
        code, line = refused(
            "--device", FAKE_GPU, "--mode", "mig", **dict(self.environment, FAKE_MIG="")
        )
        self.assertEqual(code, 4, line)
        self.assertTrue(
            re.search("no MIG instance on 2 GPU.s., 1 of them without MIG; nvidia-smi mig", line),
            line,
        )


if __name__ == "__main__":
    sys.exit(unittest.main())
