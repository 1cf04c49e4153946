# SPDX-License-Identifier: Apache-2.0
"""Workers that are started before their sessions: who gets one, how many there are, and what becomes of them."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from harness import Client, Server, run, until

STARTED_BEFORE = "(started before)"
VGPU = {"FARCALL_VGPU": "a-vgpu-of-these-tests"}


def user_of(pid):
    return pathlib.Path(f"/proc/{pid}").stat().st_uid


class Warm(unittest.TestCase):
    def serve(self, *flags, **options):
        server = Server(*flags, **options)
        self.addCleanup(server.stop)
        return server

    def one_ready(self, server, count=1):
        """So many wait in their sandbox: their filter of system calls is the last step before libraries are loaded."""

        def ready():
            waiting = [pid for pid in server.warm_workers() if sleeps_in_recv(pid)]
            return waiting if len(waiting) == count else None

        return until(ready, 30, f"{count} warm workers")

    def hold(self, server, **environment):
        client = Client(server.url, "hold", 1, stdin=subprocess.PIPE, environment=environment)
        self.addCleanup(client.kill)
        client.wait_line("held")
        return client

    def before(self, server):
        return server.log_text().count(STARTED_BEFORE)


def sleeps_in_recv(pid):
    """It waits for a message (recvmsg), behind its filter."""
    try:
        call = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0]
        return call == "47" and "Seccomp:\t2" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Taken(Warm):
    def test_a_session_gets_the_one_that_waits_and_another_takes_its_place(self):
        server = self.serve()
        (waiting,) = self.one_ready(server)
        self.hold(server)
        self.assertEqual(server.workers(), [waiting], "the same process, by a session's name")
        self.assertEqual(self.before(server), 1)
        (second,) = self.one_ready(server)
        self.assertNotEqual(second, waiting)

    def test_programs_compute_and_find_their_tenants_images_and_kernels(self):
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as own:
            server = self.serve(environment={"FARCALL_CACHE_DIR": cache})
            sent = []
            for _ in range(2):
                self.one_ready(server)
                client = run(server.url, "steps", 2, 0, environment={"FARCALL_CACHE_DIR": own})
                self.assertEqual(client.process.returncode, 0, client.err)
                sent.append(client.stats()["bytes_out"])
                until(
                    lambda: any(
                        len(path.name) == 64 for path in pathlib.Path(cache, "server").glob("*/*")
                    ),
                    what="the image is kept",
                )
            self.assertEqual(self.before(server), 2)
            self.assertLess(sent[1], sent[0], "the image is known")

    def test_a_bounded_number_waits(self):
        server = self.serve("--warm-workers", 3)
        self.one_ready(server, 3)
        for _ in range(2):
            self.hold(server)
        self.one_ready(server, 3)
        self.assertEqual(self.before(server), 2)


class NotTaken(Warm):
    def test_what_a_driver_reads_as_it_is_loaded_needs_a_worker_of_its_own(self):
        server = self.serve()
        waiting = self.one_ready(server)
        self.hold(server, CUDA_MODULE_LOADING="EAGER")
        self.assertEqual((self.before(server), server.warm_workers()), (0, waiting))
        self.hold(server, CUDA_MODULE_LOADING="LAZY")  # as drivers do, and PyTorch asks
        self.assertEqual(self.before(server), 1)

    def test_the_second_process_of_a_vgpu_shares_what_the_first_has(self):
        server = self.serve()
        self.one_ready(server)
        self.hold(server, **VGPU)
        waiting = self.one_ready(server)
        self.hold(server, **VGPU)
        self.assertEqual((self.before(server), server.warm_workers()), (1, waiting))

    def test_none_waits_where_none_may(self):
        for flags in (
            ("--warm-workers", 0),
            ("--debuggable",),
            ("--worker-calls", "report"),
            ("--trust-tenants",),
        ):
            with Server(*flags) as server:
                client = run(server.url, "steps", 2)
                self.assertEqual(client.process.returncode, 0, client.err)
                self.assertEqual((self.before(server), server.warm_workers()), (0, []), flags)

    def test_one_that_was_killed_is_not_taken(self):
        server = self.serve()
        (waiting,) = self.one_ready(server)
        os.kill(waiting, signal.SIGKILL)
        until(lambda: "no worker is started ahead" in server.log_text(), 20, "its end is noted")
        self.hold(server)
        self.assertEqual(self.before(server), 0)


class Users(Warm):
    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_each_waits_as_the_user_that_its_session_will_have(self):
        server = self.serve("--worker-users", "700000-700003")
        users = []
        for _ in range(2):
            (waiting,) = self.one_ready(server)
            users.append(user_of(waiting))
            self.hold(server)
            self.assertIn(waiting, server.workers())
            self.assertEqual(user_of(waiting), users[-1])
        self.assertEqual(len(set(users)), 2)
        self.assertTrue(set(users) <= set(range(700000, 700004)), users)

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_one_that_waits_keeps_no_session_from_the_last_user(self):
        server = self.serve("--worker-users", "700000-700000")
        self.one_ready(server)
        self.hold(server, CUDA_MODULE_LOADING="EAGER")
        self.assertEqual((self.before(server), server.warm_workers()), (0, []))


if __name__ == "__main__":
    unittest.main()
