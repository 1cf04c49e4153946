# SPDX-License-Identifier: Apache-2.0
"""Sessions over ucx://: programs, who offers it, what is said where it is missing, and how clients
and workers end."""

import ctypes.util
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from harness import BUILD, FARCALL, Client, Server, run, until

TOKEN = "a-token-of-this-test-0123456789"
EXAMPLES = BUILD / "examples"
HAS_UCX = bool(os.environ.get("FARCALL_UCX_PATH") or ctypes.util.find_library("ucp"))
FATAL = (signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)


class Cuttable:
    """Forwards sockets to a server, byte by byte: UCX goes its own way."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            self.pairs.append((client, server))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    @staticmethod
    def _forward(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, *flags, **options):
        server = Server("--audit", str(self.folder / "audit"), *flags, **options)
        self.addCleanup(server.stop)
        self.url = f"ucx://127.0.0.1:{server.port}"
        return server

    def audit(self, event):
        notes = [json.loads(line) for line in (self.folder / "audit").read_text().splitlines()]
        return [note for note in notes if note["event"] == event]

    def errors(self, client):
        return [line for line in client.err if "error" in line]

    def refused(self, url, *words, **options):
        client = run(url, "steps", 1, **options)
        self.assertNotEqual(client.process.returncode, 0)
        [line] = self.errors(client)
        for word in words:
            self.assertIn(word, line)

    def doctor(self, url, **environment):
        done = subprocess.run(
            [str(FARCALL), "doctor", "--endpoint", url],
            capture_output=True,
            text=True,
            timeout=120,
            env=dict(os.environ, **environment),
        )
        return next(line for line in done.stdout.splitlines() if "transport" in line)


@unittest.skipUnless(HAS_UCX, "no libucp.so.0 here")
class Ucx(Case):
    def test_programs_run_and_their_bulk_copies_are_right(self):
        self.serve("--ucx")
        client = run(self.url, "steps", 6, 20, 16, environment={"FARCALL_LOG": "info"})
        self.assertEqual((client.process.returncode, client.out[-1]), (0, "right"), client.err)
        self.assertIn(f"connected to {self.url} over ucx (", "".join(client.err))
        for example in ("vector_add", "train_mlp"):
            client = run(self.url, EXAMPLES / example)
            self.assertEqual(client.process.returncode, 0, (client.out, client.err))

    def test_by_the_setting_behind_tcp(self):
        server = self.serve("--ucx")
        client = run(
            server.url,
            "steps",
            2,
            environment={"FARCALL_LOG": "info", "FARCALL_TRANSPORT": "ucx"},
        )
        self.assertEqual(client.process.returncode, 0, client.err)
        self.assertIn(f"connected to {server.url} over ucx (", "".join(client.err))

    def test_listening_on_ucx_offers_it(self):
        self.serve(listen="ucx://127.0.0.1:0")
        self.assertEqual(run(self.url, "steps", 2).process.returncode, 0)

    def test_a_token_is_proven_before_anything_of_ucx(self):
        server = self.serve("--ucx", token=TOKEN)
        self.assertEqual(run(self.url, "steps", 2, token=TOKEN).process.returncode, 0)
        self.refused(self.url, "the token is wrong", token="another-token")
        self.assertFalse(server.workers())

    def test_a_client_without_it_loads_nothing_of_it(self):
        server = self.serve("--ucx")
        client = Client(server.url, "steps", 1000, 20)
        client.wait_line("step 3")
        maps = pathlib.Path(f"/proc/{client.process.pid}/maps").read_text()
        [worker] = server.workers()
        maps += pathlib.Path(f"/proc/{worker}/maps").read_text()
        client.kill()
        self.assertNotIn("libucp", maps)

    def test_it_leaves_signals_and_stdout_alone(self):
        self.serve("--ucx")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        status = pathlib.Path(f"/proc/{client.process.pid}/status").read_text()
        maps = pathlib.Path(f"/proc/{client.process.pid}/maps").read_text()
        client.kill()
        self.assertIn("libucp", maps)
        caught = int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)
        for number in FATAL:
            self.assertFalse(caught & 1 << (number - 1), f"signal {number} is caught")
        self.assertFalse([line for line in client.out if "UCX" in line], client.out)

    def test_a_connection_that_is_cut_is_resumed(self):
        server = self.serve("--ucx")
        forwarder = Cuttable(server.port)
        self.addCleanup(forwarder.listener.close)
        client = Client(f"ucx://127.0.0.1:{forwarder.port}", "steps", 12, 50, 8)
        for step in (2, 5, 8):
            client.wait_line(f"step {step}")
            forwarder.cut()
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_a_killed_worker_is_one_clear_error(self):
        server = self.serve("--ucx")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        self.assertNotEqual(client.wait(), 0)
        [line] = self.errors(client)
        self.assertIn("the session has ended: the worker crashed: Killed", line)
        self.assertEqual(run(self.url, "steps", 3).process.returncode, 0)

    def test_a_killed_client_ends_its_session_without_the_grace(self):
        server = self.serve("--ucx", "--grace", "600")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        client.kill()
        until(lambda: not server.workers(), what="the worker ends with its client")

    def test_forked_children_leave_the_session_alone(self):
        self.serve("--ucx")
        client = Client(self.url, "hostile", "forks")
        self.assertEqual(client.wait(), 0, (client.out, client.err))
        self.assertEqual(client.out[-1], "done")

    def test_what_a_server_does_not_offer_is_said(self):
        self.serve()
        self.refused(self.url, "the server does not offer it", "serve --ucx")
        self.assertIn("does not offer it", self.doctor(self.url))

    def test_what_a_worker_lacks_is_said(self):
        self.serve("--ucx", environment={"FARCALL_UCX_PATH": "/nowhere"})
        self.refused(self.url, "on the server: UCX cannot be loaded", "/nowhere")

    def test_the_doctor_says_that_it_would_be_used(self):
        self.serve("--ucx")
        self.assertRegex(self.doctor(self.url), r"ucx, UCX 1\.\d+")


class Absent(Case):
    def test_what_this_side_lacks_is_said_before_a_server_is_asked(self):
        nowhere = {"FARCALL_UCX_PATH": "/nowhere"}
        self.refused(
            "ucx://127.0.0.1:1",
            "transport ucx: UCX cannot be loaded",
            "/nowhere",
            environment=nowhere,
        )
        self.serve("--ucx")
        self.assertIn("UCX cannot be loaded", self.doctor(self.url, **nowhere))

    def test_an_address_beyond_the_loopback_needs_a_token(self):
        done = subprocess.run(
            [str(FARCALL), "serve", "--device", "dry", "--listen", "ucx://0.0.0.0:0"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("needs --token-file", done.stderr)


if __name__ == "__main__":
    if not HAS_UCX:
        print("no libucp.so.0 here: most of this is skipped", file=sys.stderr)
    unittest.main(verbosity=2)
