# SPDX-License-Identifier: Apache-2.0
"""Sessions over tls://: who is believed, what is refused, files that change, links that are cut, and what the server's
processes know of the key."""

import base64
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BUILD, Client, Server, link_proxy, run, until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "security"))
import wire_handshake as hs  # noqa: E402
from handshake_test import Peer, places_of, refusal_in  # noqa: E402

FARCALL = BUILD / "bin/farcall"
TOKEN = "a-token-of-this-test-0123456789"


class Authority:
    """What `farcall cert` makes, in a folder of its own."""

    def __init__(self, test):
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.cert("init")

    def cert(self, *arguments):
        done = subprocess.run(
            [str(FARCALL), "cert", *arguments, "--dir", str(self.folder)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    def issue(self, name, *flags):
        self.cert("issue", name, *flags)
        return str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")

    @property
    def ca(self):
        return str(self.folder / "ca.pem")


def scalar_of(key_file):
    """The 32 secret bytes of a P-256 key in PKCS #8."""
    lines = pathlib.Path(key_file).read_text().splitlines()
    der = base64.b64decode("".join(line for line in lines if "-----" not in line))
    return der[der.index(b"\x04\x20") + 2 :][:32]


def children_of(pid):
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == pid
            ):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            pass
    return found


class Tls(unittest.TestCase):
    def setUp(self):
        self.authority = Authority(self)
        self.certificate, self.key = self.authority.issue("server", "--host", "127.0.0.1")

    def serve(self, *flags, certificate=None, key=None):
        server = Server(
            "--tls-cert",
            certificate or self.certificate,
            "--tls-key",
            key or self.key,
            *flags,
            token=TOKEN,
            listen="tls://127.0.0.1:0",
        )
        self.addCleanup(server.stop)
        return server

    def environment(self, **more):
        return {"FARCALL_CA": self.authority.ca, **more}

    def runs(self, url, **options):
        client = run(url, "steps", 2, token=TOKEN, **{"environment": self.environment(), **options})
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        return client

    def refused(self, url, *words, **options):
        client = run(url, "steps", 1, token=TOKEN, **{"environment": self.environment(), **options})
        self.assertNotEqual(client.process.returncode, 0)
        lines = [line for line in client.err if "error" in line]
        self.assertEqual(len(lines), 1, client.err)
        for word in words:
            self.assertIn(word, lines[0])

    def gateway_of(self, server):
        return next(
            pid for pid, words in children_of(server.process.pid).items() if b"tls-gateway" in words
        )

    def test_a_program_runs_and_its_bulk_copies_are_right(self):
        server = self.serve()
        self.runs(server.url)
        client = Client(server.url, "steps", 6, 20, 16, token=TOKEN, environment=self.environment())
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_a_server_that_the_authority_did_not_sign(self):
        other = Authority(self)
        self.refused(self.serve().url, "certificate", environment={"FARCALL_CA": other.ca})

    def test_a_server_at_another_name(self):
        certificate, key = self.authority.issue("elsewhere", "--host", "gpu.example")
        self.refused(self.serve(certificate=certificate, key=key).url, "certificate", "mismatch")

    def test_the_systems_authorities_are_used_without_ca(self):
        self.refused(self.serve().url, "certificate", environment={})

    def test_a_wrong_token_inside_tls(self):
        client = run(
            self.serve().url, "steps", 1, token="another-token", environment=self.environment()
        )
        self.assertNotEqual(client.process.returncode, 0)
        self.assertIn("token", "\n".join(client.err))

    def test_tls_to_a_plain_port_and_plain_to_a_tls_port(self):
        server = self.serve("--listen", "tcp://127.0.0.1:0")
        log = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
        self.assertIn(b"tls://", log)
        self.refused("tcp" + server.url[3:], "no greeting")
        plain = Server(token=TOKEN)
        self.addCleanup(plain.stop)
        self.refused("tls" + plain.url[3:], "no TLS 1.3")

    def test_older_versions_and_early_data_are_refused(self):
        server = self.serve()
        for flags, accepted in ((["-tls1_2"], False), (["-tls1_1"], False), (["-tls1_3"], True)):
            done = subprocess.run(
                [
                    "openssl",
                    "s_client",
                    "-connect",
                    f"127.0.0.1:{server.port}",
                    "-CAfile",
                    self.authority.ca,
                    *flags,
                ],
                input="",
                capture_output=True,
                text=True,
                errors="replace",  # what a session holds is no text
                timeout=30,
            )
            self.assertEqual(
                "Verify return code: 0 (ok)" in done.stdout
                and "TLSv1.3, Cipher is TLS_" in done.stdout,
                accepted,
                done.stdout + done.stderr,
            )
            self.assertNotIn("New Session Ticket", done.stdout)
            self.assertNotIn("Early data was accepted", done.stdout)
        self.runs(server.url)

    def test_a_client_without_a_certificate_where_one_is_wanted(self):
        server = self.serve(
            "--tls-client-ca", self.authority.ca, "--audit", str(self.authority.folder / "audit")
        )
        self.refused(server.url)
        stranger = Authority(self)
        certificate, key = stranger.issue("client", "--uri", "farcall:team-a")
        self.refused(
            server.url, environment=self.environment(FARCALL_CERT=certificate, FARCALL_KEY=key)
        )
        certificate, key = self.authority.issue("client", "--uri", "farcall:team-a")
        self.runs(
            server.url, environment=self.environment(FARCALL_CERT=certificate, FARCALL_KEY=key)
        )
        notes = [
            json.loads(line) for line in (self.authority.folder / "audit").read_text().splitlines()
        ]
        started = [note for note in notes if note["event"] == "session_started"]
        self.assertEqual([note.get("certificate") for note in started], ["farcall:team-a"])

    def test_a_revoked_certificate(self):
        certificate, key = self.authority.issue("client")
        kept, kept_key = self.authority.issue("kept")
        folder = self.authority.folder
        (folder / "index").write_text("")
        (folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\ndefault_md=sha256\n"
            "default_crl_days=1\n"
        )
        for arguments in (["-revoke", certificate], ["-gencrl", "-out", str(folder / "crl.pem")]):
            subprocess.run(
                [
                    "openssl",
                    "ca",
                    "-config",
                    str(folder / "ca.cnf"),
                    "-cert",
                    self.authority.ca,
                    "-keyfile",
                    str(folder / "ca.key"),
                    *arguments,
                ],
                check=True,
                capture_output=True,
            )
        server = self.serve(
            "--tls-client-ca", self.authority.ca, "--tls-crl", str(folder / "crl.pem")
        )
        self.refused(
            server.url, environment=self.environment(FARCALL_CERT=certificate, FARCALL_KEY=key)
        )
        self.runs(server.url, environment=self.environment(FARCALL_CERT=kept, FARCALL_KEY=kept_key))

    def test_files_that_change_are_used_and_wrong_ones_are_not(self):
        server = self.serve()
        client = Client(server.url, "steps", 60, 50, token=TOKEN, environment=self.environment())
        client.wait_line("step 2")
        other = Authority(self)
        certificate, key = other.issue("server", "--host", "127.0.0.1")
        os.replace(key, self.key)
        time.sleep(1.1)  # the gateway looks once a second
        self.runs(server.url)  # a key of another certificate: the previous ones stay
        until(lambda: "cannot be used" in server.log_text(), what="a warning")
        os.replace(certificate, self.certificate)
        time.sleep(1.1)
        self.runs(server.url, environment={"FARCALL_CA": other.ca})
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_what_belongs_to_a_session_uses_tls_as_it_does(self):
        """A lane, and whoever comes back, with the right key: in the clear for a session of TLS, and the other way round."""
        server = Server(
            "--tls-cert",
            self.certificate,
            "--tls-key",
            self.key,
            "--listen",
            "tcp://127.0.0.1:0",
            listen="tls://127.0.0.1:0",
        )
        self.addCleanup(server.stop)
        clear_port = int(re.search(r"tcp://127.0.0.1:(\d+)", server.line).group(1))
        context = ssl.create_default_context(cafile=self.authority.ca)

        def connect(is_tls):
            plain = socket.create_connection(
                ("127.0.0.1", server.port if is_tls else clear_port), timeout=20
            )
            return context.wrap_socket(plain, server_hostname="127.0.0.1") if is_tls else plain

        def peer(is_tls, fields, keys=()):
            made = Peer(server, fields, keys, connection=connect(is_tls))
            self.addCleanup(made.close)
            return made

        for is_tls, why in (
            (True, "the session uses TLS, and this connection does not"),
            (False, "this connection uses TLS, and the session does not"),
        ):
            first = peer(is_tls, hs.hello_fields())
            self.assertEqual(first.kind, hs.WELCOME)
            again = {"session": first.session, "credentials": [(hs.SESSION_CREDENTIAL, b"")]}
            lane = hs.hello_fields(role=1, **again)
            for fields in (lane, hs.hello_fields(**again)):
                wrong = peer(not is_tls, fields, [first.session_key])
                self.assertEqual((wrong.kind, refusal_in(wrong.answer)), (hs.REFUSE, why))
            self.assertEqual(peer(is_tls, lane, [first.session_key]).kind, hs.WELCOME)

    def test_a_cut_link_is_resumed(self):
        server = self.serve()
        proxy = link_proxy.LinkProxy(("127.0.0.1", server.port))
        self.addCleanup(proxy.close)
        client = Client(
            "tls" + proxy.url[3:], "steps", 12, 20, 16, token=TOKEN, environment=self.environment()
        )
        for step in (2, 4, 6):
            client.wait_line(f"step {step}")
            proxy.cut()
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_a_gateway_that_dies_is_started_again_and_sessions_go_on(self):
        server = self.serve()
        client = Client(server.url, "steps", 40, 50, token=TOKEN, environment=self.environment())
        client.wait_line("step 2")
        gateway = self.gateway_of(server)
        os.kill(gateway, signal.SIGKILL)
        until(
            lambda: any(
                b"tls-gateway" in words and pid != gateway
                for pid, words in children_of(server.process.pid).items()
            ),
            what="another gateway",
        )
        self.runs(server.url)
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_handshakes_that_stall_do_not_keep_others_out(self):
        server = self.serve()
        stalled = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(700)]
        for each in stalled[::2]:
            try:
                each.sendall(b"\x16\x03\x01\x02\x00\x01")
            except OSError:
                pass  # dropped for others
        self.runs(server.url)
        for each in stalled:
            each.close()

    def test_only_the_gateway_knows_the_key(self):
        server = self.serve()
        client = Client(server.url, "hold", token=TOKEN, environment=self.environment())
        until(lambda: server.workers() and client.out, what="a session")
        secrets = {"key": scalar_of(self.key), "the same, turned": scalar_of(self.key)[::-1]}
        gateway = self.gateway_of(server)
        self.assertTrue(places_of(secrets, gateway))  # or this test looks for the wrong bytes
        for pid in {server.process.pid, *server.workers()} - {gateway}:
            try:
                found = places_of(secrets, pid)
            except FileNotFoundError:  # a helper that has ended meanwhile knows nothing more
                self.assertNotIn(pid, children_of(server.process.pid))
                continue
            self.assertEqual(found, set(), children_of(server.process.pid).get(pid))
        client.process.kill()
        client.wait()


class Flags(unittest.TestCase):
    def says(self, *words, flags):
        done = subprocess.run(
            [str(FARCALL), "serve", "--device", "dry", *flags],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        line = done.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, line)

    def test_what_cannot_be_served(self):
        authority = Authority(self)
        certificate, key = authority.issue("server", "--host", "127.0.0.1")
        other_certificate, _ = authority.issue("other", "--host", "127.0.0.1")
        listen = ["--listen", "tls://127.0.0.1:0"]
        self.says("--tls-cert", flags=listen)
        self.says("--listen tls://", flags=["--tls-cert", certificate, "--tls-key", key])
        self.says(
            "--tls-client-ca",
            flags=[*listen, "--tls-cert", certificate, "--tls-key", key, "--tls-crl", certificate],
        )
        self.says("/no/such", flags=[*listen, "--tls-cert", "/no/such", "--tls-key", key])
        self.says(key, flags=[*listen, "--tls-cert", other_certificate, "--tls-key", key])
        self.says(
            "--token-file",
            flags=["--listen", "tls://0.0.0.0:0", "--tls-cert", certificate, "--tls-key", key],
        )

    def test_an_authority_is_not_written_over(self):
        authority = Authority(self)
        before = pathlib.Path(authority.ca).read_text()
        done = subprocess.run(
            [str(FARCALL), "cert", "init", "--dir", str(authority.folder)],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, re.escape("ca.key") + ".*exists")
        self.assertEqual(pathlib.Path(authority.ca).read_text(), before)
        self.assertEqual((authority.folder / "ca.key").stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main(verbosity=2)
