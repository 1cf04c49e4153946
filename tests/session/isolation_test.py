#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands between one tenant's worker and another's: users, capabilities, filters, files (docs/guide/security.md)."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, Client, Server, run, until

USERS = range(700000, 700004)


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def as_user(user, *command):
    return subprocess.run(
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command],
        capture_output=True,
        text=True,
    )


def cgroup_folder():
    """Where a server started here would make its workers' cgroups; a text that says why it may not."""
    mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    mount = next((pathlib.Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)
    if mount is None:
        return "cgroups of version 2 are not mounted"
    own = next(
        line[3:]
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        if line.startswith("0::")
    )
    folder = mount / own.strip("/")
    lacking = {"memory", "pids", "cpu"} - set((folder / "cgroup.controllers").read_text().split())
    if lacking:
        return f"{folder} has no controller {sorted(lacking)[0]}"
    if not os.access(folder / "cgroup.subtree_control", os.W_OK):
        return f"{folder} may not be written"
    if own != "/":
        return f"{folder} has other processes than a server"
    return folder


def own_cgroup(pid, controller):
    """Of a process: the path of its cgroup; controller "": version 2's."""
    lines = [
        line.split(":", 2) for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    ]
    return next((path for _, names, path in lines if controller in names.split(",")), None)


def first_cgroups():
    """Version 1: {controller: where it is mounted}, if the server's own folders there may be written."""
    mounts = {}
    for words in map(str.split, pathlib.Path("/proc/self/mounts").read_text().splitlines()):
        if words[2] == "cgroup":
            mounts.update(
                {
                    name: pathlib.Path(words[1])
                    for name in ("memory", "pids", "cpu")
                    if name in words[3].split(",")
                }
            )
    fine = len(mounts) == 3 and all(
        os.access(mounts[name] / own_cgroup("self", name).strip("/"), os.W_OK) for name in mounts
    )
    return mounts if fine else {}


CGROUPS, FIRST = cgroup_folder(), {}
if isinstance(CGROUPS, str):
    FIRST = first_cgroups()
CGROUPS_LACK = CGROUPS if isinstance(CGROUPS, str) and not FIRST else ""


class Isolation(unittest.TestCase):
    def setUp(self):
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.kill()

    def start(self, server, count):
        started = [Client(server.url, "progress") for _ in range(count)]
        self.clients += started
        until(lambda: all(client.out for client in started), 120, "the programs run")
        return started

    def test_every_worker_is_confined(self):
        with Server() as server:
            self.start(server, 1)
            for pid in server.workers():
                status = status_of(pid)
                self.assertEqual(status["NoNewPrivs"], "1")
                self.assertEqual(status["Seccomp"], "2")
                limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
                (core,) = [
                    line.split() for line in limits.splitlines() if line.startswith("Max core")
                ]
                self.assertEqual(core[4:6], ["0", "0"])

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_workers_have_no_capabilities_terminal_or_input(self):
        with Server() as server:
            self.start(server, 1)
            for worker in server.workers():
                status = status_of(worker)
                for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"):
                    self.assertEqual(int(status[name], 16), 0, name)
                self.assertEqual(status["NoNewPrivs"], "1")
                fields = pathlib.Path(f"/proc/{worker}/stat").read_text().rsplit(")", 1)[1].split()
                session, terminal = map(int, fields[3:5])
                self.assertEqual((session, terminal), (worker, 0))
                self.assertEqual(os.readlink(f"/proc/{worker}/fd/0"), "/dev/null")

    def test_strangers_workers_have_users_of_their_own(self):
        with Server("--worker-users", "700000-700003") as server:
            self.start(server, 2)
            workers = server.workers()
            users = [set(status_of(pid)["Uid"].split()) for pid in workers]
            self.assertEqual(
                [len(ids) for ids in users],
                [1, 1],
                "real, effective, saved and file system's are one",
            )
            users = [int(ids.pop()) for ids in users]
            self.assertEqual(len(set(users)), 2)
            self.assertTrue(set(users) <= set(USERS), users)
            for pid in workers:
                status = status_of(pid)
                self.assertEqual(int(status["CapEff"], 16) | int(status["CapPrm"], 16), 0)
                self.assertEqual(status["Groups"], "")
            # As one, nothing of the other can be had: neither memory nor descriptors, nor can it be ended.
            for file in ("mem", "environ", "maps", "fd/0"):
                said = as_user(users[0], "cat", f"/proc/{workers[1]}/{file}")
                self.assertNotEqual(said.returncode, 0, file)
            self.assertNotEqual(as_user(users[0], "kill", "-9", str(workers[1])).returncode, 0)
            # Of the machine, it can write nowhere but where everybody may.
            for folder in (BUILD, "/etc", "/var/lib", "/root"):
                self.assertNotEqual(
                    as_user(users[0], "touch", f"{folder}/farcall-isolation").returncode, 0, folder
                )

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_the_workers_of_one_vgpu_share_memory_and_events(self):
        with Server("--worker-users", "700000-700003") as server:
            for what in ("allocation", "event"):
                client = run(
                    server.url, "lent", what, environment={"FARCALL_VGPU": "a-vgpu-of-these-tests"}
                )
                self.assertEqual(
                    (client.process.returncode, client.out[-1:]),
                    (0, ["done"]),
                    (client.out, client.err),
                )

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_ids_come_back_and_run_out_by_name(self):
        with Server("--worker-users", "700000-700000") as server:
            (first,) = self.start(server, 1)
            second = run(server.url, "progress")
            self.assertNotEqual(second.process.returncode, 0)
            self.assertIn("all 1 ids are in use", "\n".join(second.err))
            first.kill()
            until(lambda: not server.workers(), 30, "the worker ends")
            self.start(server, 1)

    def test_what_cannot_be_is_refused(self):
        for said, why in (
            ("0-5", "'0-5': user ids above 0"),
            ("9-8", "'9-8': a range of 1 to"),
            ("nobody", "'nobody': user ids"),
        ):
            tried = subprocess.run(
                [
                    BUILD / "bin/farcall",
                    "serve",
                    "--worker-users",
                    said,
                    "--listen",
                    "tcp://127.0.0.1:0",
                ],
                capture_output=True,
                text=True,
            )
            self.assertEqual(tried.returncode, 2, tried.stderr)
            self.assertIn(f"--worker-users: {why}", tried.stderr)
            self.assertEqual(tried.stderr.count("\n"), 1)

    @unittest.skipIf(CGROUPS_LACK, CGROUPS_LACK)
    def test_the_workers_of_a_vgpu_have_a_cgroup(self):
        bounds = {
            ("memory", "memory.limit_in_bytes" if FIRST else "memory.max"): str(6 << 30),
            ("pids", "pids.max"): "4096",
        }
        with Server("--worker-memory", "6GiB") as server:
            self.start(server, 2)
            folders = {}
            for controller, name in bounds:
                mount, asked = (FIRST[controller], controller) if FIRST else (CGROUPS, "")
                folders[controller, name] = [
                    mount / own_cgroup(pid, asked).strip("/") for pid in server.workers()
                ]
            for (controller, name), own in folders.items():
                self.assertEqual(len(set(own)), 2, "two vGPUs")
                for folder in own:
                    self.assertEqual((folder / name).read_text().strip(), bounds[controller, name])
            for client in self.clients:
                client.kill()  # a server ends when its sessions have
        for own in folders.values():
            self.assertFalse(own[0].exists() or own[0].parent.exists())

    @unittest.skipIf(CGROUPS_LACK, CGROUPS_LACK)
    def test_who_takes_more_host_memory_than_the_bound_ends_alone(self):
        with Server("--worker-memory", "512MiB") as server:
            clients = [
                Client(
                    server.url,
                    sys.executable,
                    pathlib.Path(__file__).parent / "programs/teller.py",
                    stdin=subprocess.PIPE,
                )
                for _ in range(2)
            ]
            self.clients += clients

            def say(client, line):
                told = len(client.out)
                client.process.stdin.write(line + "\n")
                client.process.stdin.flush()
                until(
                    lambda: len(client.out) > told or client.process.poll() is not None, 120, line
                )
                return client.out[-1]

            for client in clients:
                client.wait_line("ready")
            neighbour, hostile = clients
            self.assertEqual(say(hostile, f"take {1 << 30}"), "code 0")
            self.assertNotEqual(
                say(hostile, "fill"), "code 0"
            )  # the CPU device's memory is the host's
            until(lambda: len(server.workers()) == 1, 60, "its worker is gone")
            self.assertEqual(say(neighbour, f"take {16 << 20}"), "code 0")
            self.assertEqual(say(neighbour, "fill"), "code 0")
            neighbour.kill()  # a server ends when its sessions have

    @unittest.skipIf(not CGROUPS_LACK, "they may be made here")
    def test_a_bound_that_cannot_be_kept_is_refused(self):
        tried = subprocess.run(
            [
                BUILD / "bin/farcall",
                "serve",
                "--device",
                "cpu",
                "--worker-memory",
                "6GiB",
                "--listen",
                "tcp://127.0.0.1:0",
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(tried.returncode, 2, tried.stderr)
        self.assertIn("--worker-memory: cgroup: ", tried.stderr)

    def test_a_vgpu_has_a_folder_in_shared_memory_while_it_lives(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as parent:

            def folders():
                return sorted(pathlib.Path(parent).glob("*/*"))

            with Server("--warm-workers", 0, environment={"FARCALL_CPU_SHARED": parent}) as server:
                first, _ = self.start(server, 2)
                self.assertEqual(
                    [path.stat().st_mode & 0o777 for path in folders()], [0o700, 0o700], "one each"
                )
                self.assertEqual(os.listdir(folders()[0]), [])
                client = run(
                    server.url,
                    "lent",
                    "event",
                    environment={"FARCALL_VGPU": "a-vgpu-of-these-tests"},
                )
                self.assertEqual(
                    (client.process.returncode, client.out[-1:]),
                    (0, ["done"]),
                    (client.out, client.err),
                )
                first.kill()
                until(lambda: len(folders()) == 1, 30, "it goes with its vGPU")
                for client in self.clients:
                    client.kill()  # a server ends when its sessions have
            self.assertEqual(os.listdir(parent), [])

    def test_no_variable_of_a_tenant_moves_its_quota(self):
        """Neither FARCALL_*, nor the driver's, nor MPS's own: the ledger is the supervisor's."""
        tries = (
            {},
            {"FARCALL_CPU_PROFILE": "12.1"},
            {"FARCALL_DEVICE_MEMORY": str(1 << 40)},
            {
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1T",
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100",
            },
        )
        with Server("--mem", "64MiB") as server:
            for environment in tries:
                client = run(
                    server.url,
                    sys.executable,
                    pathlib.Path(__file__).parent / "programs/whole_memory.py",
                    environment=environment,
                )
                self.assertEqual(client.process.returncode, 0, client.err)
                self.assertEqual(client.out, ["total 67108864", "all 0", "more 2"], environment)
            client = run(server.url, "steps", 1, environment={"FARCALL_MEM": "1TiB"})
            self.assertNotEqual(client.process.returncode, 0)
            self.assertIn("at most 67108864 here", "\n".join(client.err))


if __name__ == "__main__":
    sys.exit(unittest.main())
