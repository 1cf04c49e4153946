# SPDX-License-Identifier: Apache-2.0
"""Pools by TLS: pools:// leads to tls:// servers, clients and hosts are known by certificates, revoked ones are refused, and
files that change are used."""

import os
import re
import subprocess
import sys
import unittest

from harness import FARCALL, HERE, Client, Server, run, until
from pool_case import MIB, PoolCase
from tls_test import Authority

OPERATOR = "an-operator-of-this-test-0123456789"


class PoolTls(PoolCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self)
        self.certificate, self.key = self.authority.issue("pool", "--host", "127.0.0.1")
        self.operator = self.authority.issue("operator")
        for team in ("a", "b"):
            self.authority.issue(f"team-{team}", "--uri", f"farcall:team-{team}")
        self.host_files = self.authority.issue("host", "--host", "127.0.0.1")

    def pool(self, *flags, token=OPERATOR):
        return self.serve(
            "--tls-cert",
            self.certificate,
            "--tls-key",
            self.key,
            *flags,
            token=token,
            ca=self.authority.ca,
            own=self.operator if "--tls-client-ca" in flags else None,
        )

    def by_certificate(self, *flags, **options):
        token = self.store.with_name("operator")
        token.write_text(OPERATOR)
        return self.pool(
            "--tls-client-ca", self.authority.ca, "--token-file", token, *flags, **options
        )

    def join(self, pool, *flags, name="one", listen="tls://127.0.0.1:0"):
        return self.host(
            pool,
            name,
            "--pool-ca",
            self.authority.ca,
            "--pool-token-file",
            self.join_token(pool),
            "--tls-cert",
            self.host_files[0],
            "--tls-key",
            self.host_files[1],
            *flags,
            listen=listen,
        )

    def join_with_certificate(self, pool, *flags, **options):
        return self.join(
            pool,
            "--pool-cert",
            self.host_files[0],
            "--pool-key",
            self.host_files[1],
            *flags,
            **options,
        )

    def files(self, name=None, **more):
        own = {
            "FARCALL_CERT": str(self.authority.folder / f"{name}.pem"),
            "FARCALL_KEY": str(self.authority.folder / f"{name}.key"),
        }
        return {"FARCALL_CA": self.authority.ca, **(own if name else {}), **more}

    def runs(self, endpoint, name=None, **options):
        client = run(endpoint, "steps", 1, environment=self.files(name), **options)
        self.assertEqual((client.process.returncode, client.out[-1:]), (0, ["right"]), client.err)

    def refused(self, endpoint, *words, environment, **options):
        client = run(endpoint, "steps", 1, environment=environment, **options)
        self.assertNotEqual(client.process.returncode, 0)
        lines = [line for line in client.err if "error" in line]
        self.assertEqual(len(lines), 1, client.err)
        for word in words:
            self.assertIn(word, lines[0])

    def farcall(self, *command, environment, code=0):
        env = {
            key: value for key, value in os.environ.items() if not key.startswith("FARCALL_TOKEN")
        }
        done = subprocess.run(
            [str(FARCALL), *command],
            capture_output=True,
            text=True,
            timeout=60,
            env={**env, **environment},
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def holds(self, pool, name, mem="64MiB"):
        client = Client(
            pool.endpoint,
            sys.executable,
            HERE / "programs/teller.py",
            stdin=subprocess.PIPE,
            environment=self.files(name, FARCALL_MEM=mem),
        )
        client.wait_line("ready")
        self.addCleanup(client.kill)
        return client


class Encrypted(PoolTls):
    def test_a_program_goes_by_tls_to_the_pool_and_to_its_host(self):
        pool = self.pool()
        self.assertRegex(pool.endpoint, "^pools://")
        server = self.join(pool)
        self.runs(pool.endpoint, token=OPERATOR)
        self.assertEqual(pool.get("/v1/hosts")["hosts"][0]["endpoints"], [server.url])
        self.refused("pool" + pool.endpoint[5:], environment=self.files(), token=OPERATOR)
        self.refused(
            pool.endpoint,
            "certificate",
            environment={"FARCALL_CA": Authority(self).ca},
            token=OPERATOR,
        )

    def test_a_host_with_both_is_reached_by_tls(self):
        pool = self.pool()
        server = self.join(pool, "--listen", "tls://127.0.0.1:0", listen="tcp://127.0.0.1:0")
        endpoints = pool.get("/v1/hosts")["hosts"][0]["endpoints"]
        self.assertEqual([url.split(":")[0] for url in endpoints], ["tls", "tcp"])
        self.assertEqual(endpoints[1], server.url)
        self.runs(pool.endpoint, token=OPERATOR)

    def test_no_plaintext_to_a_host_elsewhere(self):
        pool = self.pool()
        plain = self.host(
            pool,
            "plain",
            "--pool-ca",
            self.authority.ca,
            "--pool-token-file",
            self.join_token(pool),
            "--advertise",
            "tcp://gpu7.example:7717",
        )
        self.assertTrue(plain.url.startswith("tcp://"))
        self.refused(
            pool.endpoint, "no tls:// URL", "--listen", environment=self.files(), token=OPERATOR
        )

    def test_commands_ask_it(self):
        pool = self.pool()
        self.join(pool)
        told = {**self.files(), "FARCALL_TOKEN": OPERATOR}
        for command in (("ps",), ("devices",), ("top", "--views", "1")):
            self.farcall(*command, "--endpoint", pool.endpoint, environment=told)
        self.farcall(
            "ps",
            "--endpoint",
            pool.endpoint,
            "--ca",
            self.authority.ca,
            environment={"FARCALL_TOKEN": OPERATOR},
        )
        self.assertIn(
            "the pool answers",
            self.farcall("doctor", "--endpoint", pool.endpoint, environment=told),
        )
        self.assertIn(
            "one  ready",
            self.farcall("pool", "list", "--hosts", "--pool", pool.url, environment=told),
        )
        self.farcall("run", "--endpoint", pool.endpoint, "--", "true", environment=told)
        self.assertIn(
            "certificate",
            self.farcall(
                "ps", "--endpoint", pool.endpoint, environment={"FARCALL_TOKEN": OPERATOR}, code=1
            ),
        )

    def test_files_that_change_are_used(self):
        pool = self.pool()
        other = Authority(self)
        certificate, key = other.issue("pool", "--host", "127.0.0.1")
        os.replace(key, self.key)
        os.replace(certificate, self.certificate)
        told = {"FARCALL_CA": other.ca, "FARCALL_TOKEN": OPERATOR}

        def answers(*command):
            env = {**os.environ, **told}
            return (
                subprocess.run(
                    [str(FARCALL), *command], capture_output=True, env=env, timeout=60
                ).returncode
                == 0
            )

        for command in (
            ("pool", "list", "--pool", pool.url),
            ("ps", "--endpoint", pool.endpoint),
        ):  # REST; data port and gRPC
            until(
                lambda command=command: answers(*command),
                what=f"{command} with the new certificate",
            )


class Known(PoolTls):
    def test_a_tenant_is_its_certificate(self):
        pool = self.by_certificate()
        self.join_with_certificate(pool)
        self.holds(pool, "team-a")
        claims = pool.get("/v1/claims")["claims"]
        self.assertEqual([claim["owner"] for claim in claims], ["farcall:team-a"])
        self.assertRegex(claims[0]["tenant"], "^cert-[0-9a-f]{32}$")
        claim = claims[0]["id"]
        listed = {
            name: self.farcall("pool", "list", "--pool", pool.url, environment=self.files(name))
            for name in ("team-a", "team-b")
        }
        self.assertIn(claim, listed["team-a"])
        self.assertNotIn(claim, listed["team-b"])
        self.refused(
            pool.endpoint,
            "there is no claim",
            environment=self.files("team-b", FARCALL_CLAIM=claim),
        )
        self.farcall(
            "pool", "release", claim, "--pool", pool.url, environment=self.files("team-b"), code=1
        )
        self.farcall(
            "pool", "drain", "one", "--pool", pool.url, environment=self.files("team-a"), code=1
        )
        self.farcall("pool", "release", claim, "--pool", pool.url, environment=self.files("team-a"))

    def test_claims_are_counted_by_certificate(self):
        pool = self.by_certificate("--max-tenant-claims", "1")
        self.join_with_certificate(pool)
        self.holds(pool, "team-a")
        self.refused(pool.endpoint, "claims", environment=self.files("team-a"))
        self.holds(pool, "team-b")

    def test_a_token_is_asked_for_where_tenants_have_some(self):
        verifiers = self.store.with_name("verifiers")
        token = self.store.with_name("alice")
        self.farcall(
            "token",
            "new",
            str(token),
            "--verifier",
            str(verifiers),
            "--name",
            "alice",
            environment={},
        )
        pool = self.by_certificate("--token-verifier", verifiers)
        self.join_with_certificate(pool)
        self.refused(pool.endpoint, "token", environment=self.files("team-a"))
        self.runs(pool.endpoint, "team-a", token=token.read_text().strip())
        self.assertEqual(
            [claim["owner"] for claim in pool.get("/v1/claims")["claims"]], ["farcall:team-a"]
        )
        told = {**self.files("team-a"), "FARCALL_TOKEN_FILE": str(token)}
        self.assertIn("c-", self.farcall("pool", "list", "--pool", pool.url, environment=told))
        self.farcall("pool", "list", "--pool", pool.url, environment=self.files("team-a"), code=1)

    def test_the_operator_shows_a_token_as_well(self):
        pool = self.by_certificate()
        self.join_with_certificate(pool)
        operator = self.files("operator", FARCALL_TOKEN=OPERATOR)
        self.farcall("pool", "cordon", "one", "--pool", pool.url, environment=operator)
        self.assertIn(
            "one", self.farcall("ps", "--json", "--endpoint", pool.endpoint, environment=operator)
        )
        self.farcall(
            "pool",
            "list",
            "--pool",
            pool.url,
            environment=self.files("operator", FARCALL_TOKEN="a-wrong-token"),
            code=1,
        )

    def test_nobody_comes_in_without_a_certificate(self):
        pool = self.by_certificate()
        self.refused(pool.endpoint, environment=self.files())
        stranger = Authority(self)
        stranger.issue("client", "--uri", "farcall:team-a")
        own = {
            "FARCALL_CERT": str(stranger.folder / "client.pem"),
            "FARCALL_KEY": str(stranger.folder / "client.key"),
        }
        for environment in (self.files(), self.files(**own)):
            for command in (
                ("ps", "--endpoint", pool.endpoint),
                ("pool", "list", "--pool", pool.url),
            ):
                self.farcall(
                    *command, environment={**environment, "FARCALL_TOKEN": OPERATOR}, code=1
                )
        said = self.farcall("pool", "list", "--pool", pool.url, environment=self.files(), code=1)
        self.assertIn("--cert", said)
        server = Server(
            "--pool",
            pool.url,
            "--pool-name",
            "bare",
            "--pool-ca",
            self.authority.ca,
            "--pool-token-file",
            self.join_token(pool),
            environment={"FARCALL_CACHE_DIR": str(self.store.parent)},
        )
        self.addCleanup(server.stop)
        until(lambda: "trying again" in server.log_text(), what="a host that is not let in")
        self.assertEqual(pool.hosts(), {})

    def test_a_revoked_certificate_is_refused_at_once(self):
        folder = self.authority.folder
        (folder / "index").write_text("")
        (folder / "ca.cnf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\ndefault_md=sha256\n"
            "default_crl_days=1\n"
        )

        def openssl(*arguments):
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

        crl = folder / "crl.pem"
        openssl("-gencrl", "-out", str(crl))
        pool = self.by_certificate("--tls-crl", crl)
        self.join_with_certificate(pool)
        self.runs(pool.endpoint, "team-a")
        operator = self.files("team-a", FARCALL_TOKEN=OPERATOR)
        self.farcall("ps", "--endpoint", pool.endpoint, environment=operator)
        openssl("-revoke", str(folder / "team-a.pem"))
        openssl("-gencrl", "-out", str(folder / "new"))
        os.replace(folder / "new", crl)

        def is_refused(*command):
            return (
                subprocess.run(
                    [str(FARCALL), *command],
                    capture_output=True,
                    env={**os.environ, **operator},
                    timeout=60,
                ).returncode
                != 0
            )

        for command in (("pool", "list", "--pool", pool.url), ("ps", "--endpoint", pool.endpoint)):
            until(lambda command=command: is_refused(*command), what=f"{command} is refused")
        self.refused(pool.endpoint, environment=self.files("team-a"))
        self.runs(pool.endpoint, "team-b")


class Flags(PoolTls):
    def says(self, *words, flags):
        done = subprocess.run(
            [
                str(FARCALL),
                "pool",
                "serve",
                "--store",
                self.store,
                "--rest",
                "127.0.0.1:0",
                "--grpc",
                "127.0.0.1:0",
                *map(str, flags),
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_what_cannot_be_served(self):
        token = self.store.with_name("token")
        token.write_text(OPERATOR)
        tls = ["--tls-cert", self.certificate, "--tls-key", self.key]
        here, everywhere = (
            ["--listen", "127.0.0.1:0"],
            ["--listen", "0.0.0.0:0", "--token-file", token],
        )
        self.says("--tls-cert and --tls-key, or --plaintext", flags=everywhere)
        self.says("--token-file", flags=[*here, *tls, "--tls-client-ca", self.authority.ca])
        self.says("--tls-client-ca", flags=[*here, *tls, "--tls-crl", self.authority.ca])
        self.says(
            "--tls-cert", flags=[*here, "--tls-client-ca", self.authority.ca, "--token-file", token]
        )
        self.says(
            "/no/such", flags=[*here, *tls, "--tls-client-ca", "/no/such", "--token-file", token]
        )

    def test_plaintext_is_for_who_says_so(self):
        token = self.store.with_name("token")
        token.write_text(OPERATOR)
        pool = self.serve("--plaintext", "--token-file", token, token=OPERATOR, listen="0.0.0.0:0")
        self.assertTrue(re.match("pool://0.0.0.0:", pool.endpoint), pool.endpoint)
        pool.post("/v1/claims", memory_bytes=str(MIB), wait_ms="0")


if __name__ == "__main__":
    unittest.main()
