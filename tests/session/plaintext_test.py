# SPDX-License-Identifier: Apache-2.0
"""Who comes from another host without TLS: refused with a line that names the remedy, on both sides."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

from harness import FARCALL, Client, Server, run
from tls_test import TOKEN, Authority


def own_address():
    """An address of this host that is not the loopback: who uses it comes from beyond. None: there is none."""
    for family, elsewhere in ((socket.AF_INET, "198.51.100.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((elsewhere, 9))
                return probe.getsockname()[0]
            except OSError:
                pass
    return None


class Plaintext(unittest.TestCase):
    def setUp(self):
        self.address = own_address()
        if self.address is None:
            self.skipTest("this host has no address but the loopback")
        self.host = f"[{self.address}]" if ":" in self.address else self.address
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.audit = pathlib.Path(folder.name) / "audit"

    def serve(self, *flags, listen="tcp://{}:0"):
        server = Server("--audit", self.audit, *flags, token=TOKEN, listen=listen.format(self.host))
        self.addCleanup(server.stop)
        return server

    def everywhere(self):
        return "tcp://[::]:0" if ":" in self.address else "tcp://0.0.0.0:0"

    def refused(self, server, url, *words):
        client = run(url, "steps", 1, token=TOKEN)
        self.assertNotEqual(client.process.returncode, 0)
        errors = [line for line in client.err if "error" in line]
        self.assertEqual(len(errors), 1, client.err)
        notes = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual(notes[-1]["event"], "session_refused")
        for line in (errors[0], server.log_text(), notes[-1]["why"]):
            for word in words:
                self.assertIn(word, line)

    def test_it_is_refused_and_the_line_names_the_flags(self):
        server = self.serve()
        self.refused(
            server, server.url, "no plaintext from other hosts", "--tls-cert", "--plaintext"
        )

    def test_it_is_refused_and_the_line_names_the_port_with_tls(self):
        authority = Authority(self)
        certificate, key = authority.issue("server", "--host", self.address)
        server = self.serve(
            "--listen", f"tls://{self.host}:0", "--tls-cert", certificate, "--tls-key", key
        )
        with open(f"/proc/{server.process.pid}/cmdline", "rb") as words:
            self.assertIn(b"tls://", words.read())
        url = server.line.split(" on ")[1].split(" ")[0].split(",")[1]
        self.refused(
            server, server.url, "connect with tls://, port " + url.rsplit(":", 1)[1], "--plaintext"
        )
        client = Client(url, "steps", 2, token=TOKEN, environment={"FARCALL_CA": authority.ca})
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_the_loopback_of_the_same_port_is_let_in(self):
        server = self.serve(listen=self.everywhere())
        self.assertIn("give --plaintext", server.log_text())
        loopback = "[::1]" if ":" in self.address else "127.0.0.1"
        self.assertEqual(
            run(f"tcp://{loopback}:{server.port}", "steps", 1, token=TOKEN).process.returncode, 0
        )
        self.refused(server, f"tcp://{self.host}:{server.port}", "--plaintext")

    def test_a_question_is_refused_too(self):
        server = self.serve()
        done = subprocess.run(
            [FARCALL, "devices", "--endpoint", server.url],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "FARCALL_TOKEN": TOKEN},
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--plaintext", done.stderr)

    def test_plaintext_lets_it_in_by_flag_and_by_setting(self):
        config = self.audit.parent / "server.toml"
        config.write_text("plaintext = true\n")
        for flags in (["--plaintext"], ["--config", config]):
            server = self.serve(*flags)
            self.assertNotIn("refused", server.log_text())
            self.assertEqual(run(server.url, "steps", 1, token=TOKEN).process.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
