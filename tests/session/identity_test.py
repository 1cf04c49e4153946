# SPDX-License-Identifier: Apache-2.0
"""Clients that are known by their certificates: quotas, audit, and connections that come back for a session; and the client's
TLS beside an OpenSSL of the program's own."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from harness import FARCALL, HERE, Client, Server, link_proxy, run, until
from tls_test import TOKEN, Authority

BESIDE = HERE / "programs/beside_ssl.py"


class Identity(unittest.TestCase):
    def setUp(self):
        self.authority = Authority(self)
        self.certificate, self.key = self.authority.issue("server", "--host", "127.0.0.1")
        self.audit = self.authority.folder / "audit"
        for team in ("a", "b"):
            self.authority.issue(f"team-{team}", "--uri", f"farcall:team-{team}")

    def serve(self, *flags, token=TOKEN):
        server = Server(
            "--tls-cert",
            self.certificate,
            "--tls-key",
            self.key,
            "--tls-client-ca",
            self.authority.ca,
            "--audit",
            self.audit,
            *flags,
            token=token,
            listen="tls://127.0.0.1:0",
        )
        self.addCleanup(server.stop)
        return server

    def files(self, name):
        return {
            "FARCALL_CA": self.authority.ca,
            "FARCALL_CERT": str(self.authority.folder / f"{name}.pem"),
            "FARCALL_KEY": str(self.authority.folder / f"{name}.key"),
        }

    def notes(self, event):
        return [
            note
            for note in map(json.loads, self.audit.read_text().splitlines())
            if note["event"] == event
        ]

    def holds(self, server, name, token=TOKEN):
        client = Client(server.url, "steps", 400, 50, token=token, environment=self.files(name))
        client.wait_line("step 1")
        self.addCleanup(client.kill)
        return client

    def refused(self, url, name, *words, token=TOKEN):
        client = run(url, "steps", 1, token=token, environment=self.files(name))
        self.assertNotEqual(client.process.returncode, 0)
        lines = [line for line in client.err if "error" in line]
        self.assertEqual(len(lines), 1, client.err)
        for word in words:
            self.assertIn(word, lines[0])

    def test_sessions_are_counted_by_certificate_whatever_the_token(self):
        server = self.serve("--max-tenant-sessions", 1)
        self.holds(server, "team-a")
        self.refused(
            server.url, "team-a", "farcall:team-a has 1 sessions of 1", "--max-tenant-sessions"
        )
        self.assertEqual(
            run(
                server.url, "steps", 1, token=TOKEN, environment=self.files("team-b")
            ).process.returncode,
            0,
        )
        self.assertEqual(
            [note["certificate"] for note in self.notes("session_refused")], ["farcall:team-a"]
        )

    def test_memory_of_a_tenant_is_counted_by_certificate(self):
        server = self.serve("--tenant-mem", "64MiB")
        small, large = ("steps", 1, 0, 8), ("steps", 1, 0, 28)
        hold = Client(
            server.url, "steps", 400, 50, 12, token=TOKEN, environment=self.files("team-a")
        )  # 24 MiB
        hold.wait_line("step 1")
        self.addCleanup(hold.kill)
        taken = run(server.url, *large, token=TOKEN, environment=self.files("team-a"))
        self.assertIn("error 2 cudaErrorMemoryAllocation", "\n".join(taken.out))
        for name, command in (("team-a", small), ("team-b", large)):
            self.assertEqual(
                run(
                    server.url, *command, token=TOKEN, environment=self.files(name)
                ).process.returncode,
                0,
                name,
            )

    def test_the_audit_and_the_lists_name_the_certificate(self):
        self.authority.issue("plain-name")
        control = self.authority.folder / "control.sock"
        server = self.serve("--control", control)
        for name in ("team-a", "plain-name"):
            self.assertEqual(
                run(
                    server.url, "steps", 1, token=TOKEN, environment=self.files(name)
                ).process.returncode,
                0,
            )
        for event in ("session_started", "session_ended"):
            until(lambda: len(self.notes(event)) == 2, what=event)
            self.assertEqual(
                [note["certificate"] for note in self.notes(event)],
                ["farcall:team-a", "plain-name"],
            )
        self.holds(server, "team-b")
        listed = subprocess.run(
            [FARCALL, "ps", "--control", control, "--json"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertIn("farcall:team-b", listed.stdout, listed.stderr)
        self.assertIn("certificate 'farcall:team-b'", server.log_text())

    def test_a_certificate_stands_in_for_a_token(self):
        server = self.serve("--max-tenant-sessions", 1, token=None)
        self.holds(server, "team-a", token=None)
        self.refused(server.url, "team-a", "farcall:team-a", token=None)
        self.assertEqual(
            run(server.url, "steps", 1, environment=self.files("team-b")).process.returncode, 0
        )

    def test_a_token_is_asked_for_beside_a_certificate(self):
        self.refused(self.serve().url, "team-a", "token", token="another-token")

    def test_a_certificate_whose_name_is_too_long_to_tell_it_from_others(self):
        server = self.serve()
        for name, length in (("fits", 240), ("long", 241)):
            self.authority.issue(name, "--uri", "farcall:" + "n" * (length - 8))
        self.assertEqual(
            run(
                server.url, "steps", 1, token=TOKEN, environment=self.files("fits")
            ).process.returncode,
            0,
        )
        self.refused(server.url, "long", "names nobody", "240")

    def beside(self, server, name):
        """A program whose bulk lanes are not open yet, with a certificate that can be changed under it."""
        proxy = link_proxy.LinkProxy(("127.0.0.1", server.port))
        self.addCleanup(proxy.close)
        own = {
            "FARCALL_CA": self.authority.ca,
            "FARCALL_CERT": str(self.authority.folder / "own.pem"),
            "FARCALL_KEY": str(self.authority.folder / "own.key"),
        }
        self.become(name)
        client = Client(
            "tls" + proxy.url[3:],
            sys.executable,
            BESIDE,
            self.certificate,
            self.key,
            self.authority.ca,
            token=TOKEN,
            environment=own,
            stdin=subprocess.PIPE,
        )
        self.addCleanup(client.kill)
        client.wait_line("ready")
        return client, proxy

    def become(self, name):
        for end in (".pem", ".key"):
            other = pathlib.Path(self.authority.folder / (name + end)).read_bytes()
            (self.authority.folder / "own").with_suffix(end + ".new").write_bytes(other)
            os.replace(
                self.authority.folder / ("own" + end + ".new"),
                self.authority.folder / ("own" + end),
            )

    def go_on(self, client):
        client.process.stdin.write("\n")
        client.process.stdin.close()
        return client.wait()

    def test_it_works_beside_an_openssl_of_the_program(self):
        client, _ = self.beside(self.serve(), "team-a")
        self.assertEqual(
            (self.go_on(client), client.out[-1]), (0, "right"), (client.out, client.err)
        )

    def test_a_lane_of_another_certificate_is_refused(self):
        server = self.serve()
        client, _ = self.beside(server, "team-a")
        self.become("team-b")
        self.assertEqual((self.go_on(client), client.out[-1].split()[0]), (3, "error"), client.out)
        refused = self.notes("session_refused")
        self.assertEqual(
            [note["certificate"] for note in refused], ["farcall:team-b"] * 2
        )  # lanes are dialled at once
        self.assertIn(
            "'farcall:team-b', and the session's is of 'farcall:team-a'", refused[0]["why"]
        )

    def test_a_session_does_not_come_back_with_another_certificate(self):
        server = self.serve()
        client, proxy = self.beside(server, "team-a")
        self.become("team-b")
        proxy.cut()
        self.assertNotEqual(self.go_on(client), 0)
        self.assertIn("the session's is of 'farcall:team-a'", "\n".join(client.err))

    def test_a_certificate_that_was_renewed_is_the_same(self):
        server = self.serve()
        client, proxy = self.beside(server, "team-a")
        self.authority.issue("team-a-again", "--uri", "farcall:team-a")
        self.become("team-a-again")
        proxy.cut()
        self.assertEqual((self.go_on(client), client.out[-1]), (0, "right"), client.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
