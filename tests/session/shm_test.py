# SPDX-License-Identifier: Apache-2.0
"""Sessions over shm://: programs, who may in, a client that writes over its ring, and the ends of clients and workers."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from harness import BUILD, FARCALL, Client, Server, run, until

TOKEN = "a-token-of-this-test-0123456789"
EXAMPLES = BUILD / "examples"
RING = "memfd:farcall-ring"
VGPU = {"FARCALL_VGPU": "a-vgpu-of-these-tests"}


def rings_of(pid):
    """The mappings of rings: (address, permissions)."""
    lines = [
        line.split()
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
        if RING in line
    ]
    return [(int(words[0].split("-")[0], 16), words[1]) for words in lines]


def overwrite(pid):
    """Fills the words and the beginning of each ring that the client may write with ones."""
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for address, permissions in rings_of(pid):
                if "w" in permissions:
                    memory.seek(address)
                    memory.write(b"\xff" * 8192)
    except OSError:
        pass  # it ends


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = str(self.folder / "farcall.shm")
        self.url = "shm://" + self.path

    def serve(self, *flags, token=None):
        server = Server(
            "--shm", self.path, "--audit", str(self.folder / "audit"), *flags, token=token
        )
        self.addCleanup(server.stop)
        return server

    def audit(self, event):
        notes = [json.loads(line) for line in (self.folder / "audit").read_text().splitlines()]
        return [note for note in notes if note["event"] == event]

    def errors(self, client):
        return [line for line in client.err if "error" in line]


class Shm(Case):
    def test_programs_run_and_their_bulk_copies_are_right(self):
        server = self.serve()
        client = run(self.url, "steps", 6, 20, 16)
        self.assertEqual((client.process.returncode, client.out[-1]), (0, "right"), client.err)
        for example in ("vector_add", "train_mlp"):
            client = run(self.url, EXAMPLES / example)
            self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        self.assertEqual(
            {note["local_user"] for note in self.audit("session_started")}, {os.geteuid()}
        )
        until(lambda: not server.workers(), what="the workers end with their programs")

    def test_only_client_and_worker_map_the_rings(self):
        server = self.serve()
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        [worker] = server.workers()
        self.assertEqual(rings_of(server.process.pid), [])
        for pid in (worker, client.process.pid):
            # Each writes its own memory and reads the other's.
            kinds = [permissions for _, permissions in rings_of(pid)]
            self.assertTrue(kinds and kinds.count("rw-s") == kinds.count("r--s"), kinds)
        client.kill()

    def test_a_client_that_overwrites_its_rings_ends_its_own_session_only(self):
        server = self.serve()
        neighbour = Client(self.url, "steps", 60, 50)
        client = Client(self.url, "steps", 1000, 20, 8)
        neighbour.wait_line("step 3")
        client.wait_line("step 3")
        # A client that is awake writes the right words again: some time the worker looks between.
        for _ in range(20000):
            if client.process.poll() is not None:
                break
            overwrite(client.process.pid)
        self.assertNotEqual(client.wait(), 0)
        [error] = self.errors(client)
        self.assertEqual((neighbour.wait(), neighbour.out[-1]), (0, "right"), neighbour.err)

        def names_ring(text):
            return any(word in text for word in ("shared memory", "frame", "chunk"))

        # Whichever looked first says what it found; the other is told, or its peer is gone.
        self.assertTrue(names_ring(error), error)
        if "the server ended the session" in error:
            until(
                lambda: any(names_ring(note["cause"]) for note in self.audit("session_ended")),
                what=lambda: f"a cause that names the ring: {self.audit('session_ended')}, {error}",
            )
        self.assertIsNone(server.process.poll())

    def test_a_killed_worker_is_one_clear_error(self):
        server = self.serve()
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        self.assertNotEqual(client.wait(), 0)
        [line] = self.errors(client)
        self.assertIn(
            "the session has ended: the worker crashed: Killed; start the program again", line
        )
        self.assertEqual(run(self.url, "steps", 3).process.returncode, 0)

    def test_a_killed_client_ends_its_session_without_the_grace(self):
        server = self.serve("--grace", "600")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        client.kill()
        until(lambda: not server.workers(), what="the worker ends with its client")

    def test_a_token_is_proven_as_over_tcp(self):
        self.serve(token=TOKEN)
        client = run(self.url, "steps", 2, token=TOKEN)
        self.assertEqual(client.process.returncode, 0, client.err)
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o666)
        client = run(self.url, "steps", 2, token="another-token")
        self.assertNotEqual(client.process.returncode, 0)
        self.assertIn("the token is wrong", self.errors(client)[0])

    def test_users_who_are_not_named_are_refused_in_one_line(self):
        server = self.serve("--shm-users", "4242")
        client = run(self.url, "steps", 1)
        self.assertNotEqual(client.process.returncode, 0)
        [line] = self.errors(client)
        self.assertIn(f"user {os.geteuid()} may not use this server's shared memory", line)
        [note] = self.audit("session_refused")
        self.assertEqual(note["from"], f"local user {os.geteuid()}")
        self.assertEqual(run(server.url, "steps", 1).process.returncode, 0, "over tcp")

    def test_users_who_are_named_may_in(self):
        self.serve("--shm-users", f"4242,{os.geteuid()}")
        self.assertEqual(run(self.url, "steps", 1).process.returncode, 0)

    def test_nothing_listens(self):
        client = run(self.url, "steps", 1)
        self.assertNotEqual(client.process.returncode, 0)
        self.assertIn("nothing listens there", self.errors(client)[0])

    def test_the_rings_of_a_vgpu_count_against_its_host_memory(self):
        """4.5 MiB of each session: of the log and two lanes, in both directions."""
        self.serve("--host-mem", "6MiB")
        first = Client(self.url, "steps", 1000, 20, environment=VGPU)
        first.wait_line("step 1")
        second = run(self.url, "steps", 1, environment=VGPU)
        self.assertNotEqual(second.process.returncode, 0)
        [line] = self.errors(second)
        self.assertIn(
            "shared memory of the session: pinned host memory: asked 4743168 bytes, 1548288 free of 6291456",
            line,
        )
        self.assertEqual(
            run(self.url, "steps", 1).process.returncode, 0, "another vGPU has its own"
        )
        first.kill()
        until(
            lambda: run(self.url, "steps", 1, environment=VGPU).process.returncode == 0,
            what="they are given back with the session",
        )

    def test_forked_children_leave_the_session_alone(self):
        self.serve()
        client = Client(self.url, "hostile", "forks")
        self.assertEqual(client.wait(), 0, (client.out, client.err))
        self.assertEqual(client.out[-1], "done")

    def test_the_socket_goes_with_its_server_and_a_left_one_is_taken(self):
        server = self.serve()
        server.process.kill()
        server.process.wait()
        self.assertTrue(os.path.exists(self.path))
        server = self.serve()
        self.assertEqual(run(self.url, "steps", 1).process.returncode, 0)
        for _ in range(2):
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
        server.process.wait()
        self.assertFalse(os.path.exists(self.path))


class SharedHost(Case):
    """Page-locked and managed memory, which client and worker both map."""

    def program(self, *words, whose, **options):
        client = run(options.pop("url", self.url), "shared_host", *words, **options)
        self.assertEqual(
            (client.process.returncode, client.out), (0, [*whose, "right"]), client.err
        )
        return client.stats()

    def test_copies_of_page_locked_memory_cross_nothing(self):
        self.serve()
        stats = self.program("copies", 64, whose=["shared", "private"])
        # 18 copies of 64 MiB; what crosses are calls, the image, and 8 KiB of registered memory.
        self.assertLess(stats["bytes_out"] + stats["bytes_in"], 256 << 10)

    def test_a_kernel_sees_what_the_program_writes_while_it_runs(self):
        self.serve()
        self.program("polls", 1000, whose=["shared"])

    def test_managed_memory_crosses_nothing(self):
        self.serve()
        stats = self.program("managed", 16, whose=["shared"])
        self.assertLess(stats["bytes_out"] + stats["bytes_in"], 256 << 10)

    def test_it_is_charged_and_given_back(self):
        self.serve("--host-mem", "16MiB")
        self.program("frees", 20, whose=["shared", "shared"])

    def test_what_the_quota_has_no_room_for_is_the_clients_alone(self):
        self.serve("--host-mem", "16MiB")
        self.program("copies", 64, whose=["private", "private"])

    def test_managed_memory_beyond_the_quota_is_refused(self):
        self.serve("--mem", "8MiB")
        client = run(self.url, "shared_host", "managed", 16)
        self.assertNotEqual(client.process.returncode, 0)
        self.assertIn("memory", " ".join(client.err + client.out))

    def test_a_child_does_not_have_it(self):
        self.serve()
        self.program("forks", whose=["shared", "private"])

    def test_work_ahead_of_a_synchronous_copy_is_seen_by_the_host(self):
        self.serve()
        self.program("orders", whose=["shared"])

    def test_over_tcp_it_is_the_clients_alone(self):
        server = self.serve()
        self.program(
            "copies",
            4,
            whose=["private", "private"],
            url=server.url,
            environment={"FARCALL_TRANSPORT": "tcp"},
        )

    def test_a_session_that_moved_has_it(self):
        server = self.serve()
        self.program(
            "copies",
            4,
            whose=["shared", "private"],
            url=server.url,
            environment={"FARCALL_TRANSPORT": "auto"},
        )

    def test_it_is_the_servers_again_when_the_client_is_killed(self):
        server = self.serve("--host-mem", "16MiB", "--grace", "600")
        for _ in range(3):
            client = Client(self.url, "shared_host", "holds", 8, environment=VGPU)
            client.wait_line("held")
            self.assertEqual(client.out[0], "shared", client.err)
            client.kill()
            until(lambda: not server.workers(), what="the worker ends with its client")


class Choice(Case):
    """At a tcp:// endpoint, by FARCALL_TRANSPORT."""

    def runs(self, url, transport, over):
        client = run(
            url,
            "steps",
            4,
            5,
            8,
            environment={"FARCALL_TRANSPORT": transport, "FARCALL_LOG": "info"},
        )
        self.assertEqual((client.process.returncode, client.out[-1:]), (0, ["right"]), client.err)
        [line] = [line for line in client.err if "connected to" in line]
        self.assertIn(f"connected to {url} over {over} (", line)

    def refused(self, url, transport, *words):
        client = run(url, "steps", 1, environment={"FARCALL_TRANSPORT": transport})
        self.assertNotEqual(client.process.returncode, 0)
        [line] = self.errors(client)
        for word in words:
            self.assertIn(word, line)

    def doctor(self, url, transport):
        done = subprocess.run(
            [str(FARCALL), "doctor", "--endpoint", url],
            capture_output=True,
            text=True,
            timeout=120,
            env=dict(os.environ, FARCALL_TRANSPORT=transport),
        )
        return next(line for line in done.stdout.splitlines() if "transport" in line)

    def test_auto_moves_to_shared_memory(self):
        server = self.serve()
        for _ in range(10):  # the client may be faster than the rest of the worker's start
            self.runs(server.url, "auto", "shm")
        client = run(server.url, "steps", 1, environment={"FARCALL_LOG": "info"})
        self.assertIn(
            f"connected to {server.url} over shm (", "".join(client.err), "that is the default"
        )
        self.runs(server.url, "shm", "shm")
        self.assertIn(f"shm, {self.path}", self.doctor(server.url, "auto"))

    def test_tcp_stays_on_tcp(self):
        server = self.serve()
        self.runs(server.url, "tcp", "tcp")
        self.assertIn("FARCALL_TRANSPORT", self.doctor(server.url, "tcp"))

    def test_auto_stays_where_there_is_no_socket(self):
        server = self.serve()
        os.unlink(self.path)
        self.runs(server.url, "auto", "tcp")
        self.refused(server.url, "shm", "transport shm", self.path)
        self.assertIn("nothing listens there", self.doctor(server.url, "auto"))

    def test_auto_stays_where_none_is_offered(self):
        server = Server()
        self.addCleanup(server.stop)
        self.runs(server.url, "auto", "tcp")
        self.refused(server.url, "shm", "offers no shared memory")
        self.assertIn("offers no shared memory", self.doctor(server.url, "auto"))

    def test_auto_stays_where_the_rings_are_over_the_quota(self):
        server = self.serve("--host-mem", "4MiB")
        self.runs(server.url, "auto", "tcp")
        [note] = self.audit("session_refused")
        self.assertIn(
            "shared memory of the session: pinned host memory: asked 4743168 bytes", note["why"]
        )

    def test_auto_stays_where_the_user_may_not(self):
        server = self.serve("--shm-users", "4242")
        self.runs(server.url, "auto", "tcp")
        self.refused(server.url, "shm", f"user {os.geteuid()} may not")

    def test_a_moved_session_ends_with_its_worker_in_one_clear_error(self):
        server = self.serve()
        client = Client(server.url, "steps", 1000, 20, environment={"FARCALL_TRANSPORT": "auto"})
        client.wait_line("step 3")
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        self.assertNotEqual(client.wait(), 0)
        [line] = self.errors(client)
        self.assertIn("the worker crashed", line)

    def test_what_cannot_be(self):
        self.refused("tcp://127.0.0.1:1", "tls", "transport tls cannot reach tcp://127.0.0.1:1")
        self.refused(self.url, "tcp", "transport tcp cannot reach")
        self.refused(
            "tcp://127.0.0.1:1",
            "pigeon",
            "FARCALL_TRANSPORT=pigeon must be auto, tcp, tls, shm, ucx or verbs",
        )


class Flags(unittest.TestCase):
    def says(self, *words, flags):
        done = subprocess.run(
            [str(FARCALL), "serve", "--device", "dry", "--listen", "tcp://127.0.0.1:0", *flags],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr.strip().splitlines()[-1])

    def test_what_cannot_be_served(self):
        self.says("--shm", "relative", "absolute path", flags=["--shm", "relative"])
        self.says("--shm-users", "--shm auto", flags=["--shm-users", "1000"])
        self.says(
            "no-such-user", "1000,alice", flags=["--shm", "/tmp/x", "--shm-users", "0,no-such-user"]
        )
        self.says("107", flags=["--shm", "/" + "x" * 200])


if __name__ == "__main__":
    unittest.main(verbosity=2)
