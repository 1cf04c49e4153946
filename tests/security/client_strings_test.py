# SPDX-License-Identifier: Apache-2.0
"""What a client says of itself reaches people and programs as printable text of bounded length."""

import json
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from harness import FARCALL, PROGRAMS, Client, Server, until

HOSTILE = (
    '\nok 2026-01-01 info quota set\x1b[2J\x1b]0;gone\x07\u202emoor\u2028\x9b31m" \\{x="1"} 1\r'
)
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class ClientStrings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def farcall(self, *command):
        done = subprocess.run(
            [FARCALL, *command, "--control", self.folder / "control"],
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()  # all of it is UTF-8

    def hostile_program(self):
        path = self.folder / (HOSTILE.replace("/", "") + "\udcff")
        if not path.exists():
            shutil.copy(PROGRAMS / "hold", path)
        return path

    def check(self, text, what):
        self.assertIsNone(CONTROL.search(text), (what, text))
        self.assertLess(len(text), 100_000, what)

    def test_of_a_terminal_a_log_an_audit_json_and_labels(self):
        audit, metrics = self.folder / "audit", f"127.0.0.1:{free_port()}"
        with Server(
            "--control", str(self.folder / "control"), "--audit", str(audit), "--metrics", metrics
        ) as server:
            users = [HOSTILE, HOSTILE * 1000, "x" * 100_000]
            clients = [
                Client(
                    server.url,
                    self.hostile_program(),
                    1,
                    stdin=subprocess.PIPE,
                    environment={"USER": user},
                )
                for user in users
            ]
            for client in clients:
                client.wait_line("held")
            for view in (["ps"], ["top", "--views", "1"]):
                text = self.farcall(*view)
                self.check(text, view)
                self.assertNotIn("\nok 2026", text)
            for command in (["ps", "--json"], ["top", "--views", "1", "--json"]):
                text = self.farcall(*command)
                self.check(text, command)
                self.assertTrue(text.isascii(), command)
                status = json.loads(text)
                for vgpu in status["vgpus"]:
                    for value in (
                        vgpu["owner"],
                        *(
                            s[name]
                            for s in vgpu["sessions"]
                            for name in ("user", "host", "program")
                        ),
                    ):
                        self.check(value, command)
                        self.assertNotIn("\n", value)
                        self.assertLess(len(value), 256)
            labels = urllib.request.urlopen(f"http://{metrics}/metrics", timeout=60).read().decode()
            self.assertIn("farcall_vgpu_memory_used_bytes{", labels)
            self.check(labels, "metrics")
            for client in clients:
                client.process.stdin.close()
                client.wait()
            until(lambda: audit.read_text().count("session_ended") == len(users), what="ended")
            for line in audit.read_bytes().decode("ascii").splitlines():
                self.check(line, "audit")
                json.loads(line)
            log = server.log_text()
            self.check(log, "log")
            for line in log.splitlines():
                self.assertRegex(line, r"^20\d\d-\d\d-\d\dT")
            self.assertGreater(len(log.splitlines()), len(users))

    def test_of_a_server_that_refuses(self):
        """The other way round: a client's own log."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def refuse():
            connection, _ = listener.accept()
            text = HOSTILE.encode()
            body = struct.pack("<B7xQ", 4, len(text)) + text
            body += b"\0" * (-len(body) % 8)
            major = 2
            connection.sendall(struct.pack("<IIHHHH", 0x31484346, len(body), 4, major, 0, 0) + body)
            connection.recv(1 << 16)

        threading.Thread(target=refuse, daemon=True).start()
        client = Client(f"tcp://127.0.0.1:{listener.getsockname()[1]}", "steps", 1)
        client.wait()
        text = "\n".join(client.err)
        self.check(text, "client's log")


if __name__ == "__main__":
    unittest.main()
