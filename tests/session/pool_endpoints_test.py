#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pool's endpoints: watched by gRPC, and behind TLS."""

import os
import signal
import subprocess
import unittest
import urllib.request

from harness import FARCALL, PROGRAMS, until
from pool_case import MIB, PoolCase


class Watcher:
    """A program that watches by gRPC: its changes, as (number, kind, id, state)."""

    def __init__(self, pool, what, *arguments, token=None, ca=None, address=None):
        env = {
            "PATH": os.environ["PATH"],
            **({"FARCALL_TOKEN": token} if token else {}),
            **({"FARCALL_POOL_CA": ca} if ca else {}),
        }
        command = [
            PROGRAMS / "pool_watch",
            what,
            address or pool.addresses()["grpc"],
            *map(str, arguments),
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )

    def __next__(self):
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        number, kind, id, state = line.split()
        return int(number), kind, id, state

    def until(self, *wanted):
        """What comes, up to (kind, id, state)."""
        seen = [next(self)]
        while seen[-1][1:] != wanted:
            seen.append(next(self))
        return seen

    def ends(self):
        """It does so by itself: what it says."""
        said = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 1, said
        return said

    def stop(self):
        self.process.kill()
        self.process.communicate()


class WatchTest(PoolCase):
    def watch(self, *arguments, **options):
        watcher = Watcher(*arguments, **options)
        self.addCleanup(watcher.stop)
        return watcher

    def test_claims_are_watched(self):
        pool = self.serve(token="secret")
        first = pool.post("/v1/claims", memory_bytes=str(64 * MIB))["id"]
        watcher = self.watch(pool, "claims", token="secret")
        self.assertEqual(
            [next(watcher)[1:] for _ in range(3)],
            [("all", "-", "-"), ("claim", first, "pending"), ("synced", "-", "-")],
        )
        second = pool.post("/v1/claims", memory_bytes=str(64 * MIB))["id"]
        seen = watcher.until("claim", second, "pending")
        pool.call("DELETE", "/v1/claims/" + first)
        seen += watcher.until("claim", first, "released")
        numbers = [number for number, *_ in seen]
        self.assertEqual(numbers, sorted(set(numbers)), "each once, in order")
        # From the second on: nothing of what is known, and no gap.
        later = self.watch(pool, "claims", "", numbers[0], token="secret")
        self.assertEqual(later.until("claim", first, "released"), seen[1:])
        # One of them only.
        only = self.watch(pool, "claims", second, token="secret")
        self.assertEqual(
            [next(only)[1:3] for _ in range(3)], [("all", "-"), ("claim", second), ("synced", "-")]
        )
        pool.call("PATCH", "/v1/claims/" + first, {"share_milli": 100})
        pool.call("DELETE", "/v1/claims/" + second)
        self.assertEqual(next(only)[1:], ("claim", second, "released"))

    def test_hosts_are_watched(self):
        pool = self.serve()
        watcher = self.watch(pool, "hosts")
        self.assertEqual([next(watcher)[1] for _ in range(2)], ["all", "synced"])
        self.host(pool, "one")
        watcher.until("host", "one", "ready")
        pool.call("POST", "/v1/hosts/one:drain")
        watcher.until("host", "one", "drained")

    def test_who_may_not_is_refused_and_who_goes_makes_room(self):
        pool = self.serve(token="secret")
        for token in (None, "wrong"):
            self.assertIn(
                "code 16: the token is wrong", self.watch(pool, "claims", token=token).ends()
            )
        many = [self.watch(pool, "hosts", token="secret") for _ in range(24)]
        for each in many:
            self.assertEqual(next(each)[1], "all")
        self.assertIn("code 8: 24 watchers", self.watch(pool, "hosts", token="secret").ends())
        many[0].stop()

        def comes_in():
            again = self.watch(pool, "hosts", token="secret")
            return again.process.stdout.readline()

        until(comes_in, 60, "its place is free")

    def test_a_controller_that_ends_ends_its_watchers(self):
        pool = self.serve()
        watcher = self.watch(pool, "claims")
        self.assertEqual(next(watcher)[1], "all")
        pool.stop()
        watcher.process.communicate(timeout=60)

    def test_a_controller_that_dies_is_noticed(self):
        pool = self.serve()
        watcher = self.watch(pool, "claims")
        self.assertEqual(next(watcher)[1], "all")
        pool.stop(signal.SIGKILL)
        self.assertIn("code 14", watcher.ends())


class TlsTest(PoolCase):
    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)

    def setUp(self):
        super().setUp()
        folder = self.store.parent
        self.files = {}
        for name in ("ca", "other"):
            key, certificate = str(folder / f"{name}.key"), str(folder / f"{name}.pem")
            self.openssl(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                f"/CN={name}",
                "-addext",
                "subjectAltName=IP:127.0.0.1,DNS:localhost",
                "-keyout",
                key,
                "-out",
                certificate,
            )
            self.files[name] = certificate, key
        self.ca, self.key = self.files["ca"]

    def served(self):
        return self.serve("--tls-cert", self.ca, "--tls-key", self.key, token="secret", ca=self.ca)

    def pool_command(self, pool, *command, ca=None, code=0, url=None):
        env = {**os.environ, "FARCALL_TOKEN": "secret"}
        done = subprocess.run(
            [FARCALL, "pool", *command, "--pool", url or pool.url, *(["--ca", ca] if ca else [])],
            capture_output=True,
            text=True,
            timeout=60,
            env=env,
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_hosts_programs_and_people_come_in_by_tls(self):
        pool = self.served()
        self.assertTrue(pool.url.startswith("https://"), pool.url)
        self.host(pool, "one", "--pool-ca", self.ca, "--pool-token-file", self.join_token(pool))
        self.assertIn("one  ready", self.pool_command(pool, "list", "--hosts", ca=self.ca))
        watcher = Watcher(pool, "hosts", token="secret", ca=self.ca)
        self.addCleanup(watcher.stop)
        self.assertEqual([next(watcher)[1] for _ in range(3)], ["all", "host", "synced"])
        env = {**os.environ, "FARCALL_TOKEN": "secret"}
        self.assertTrue(pool.endpoint.startswith("pools://"), pool.endpoint)
        shown = subprocess.run(
            [FARCALL, "ps", "--json", "--endpoint", pool.endpoint, "--ca", self.ca],
            capture_output=True,
            text=True,
            timeout=60,
            env=env,
        )
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn('"one"', shown.stdout)

    def test_who_is_not_believed_is_told_nothing(self):
        pool = self.served()
        other, _ = self.files["other"]
        said = self.pool_command(pool, "list", ca=other, code=1)
        self.assertEqual((said.count("\n"), "certificate is not believed" in said), (1, True), said)
        self.assertIn("No such file", self.pool_command(pool, "list", ca="/nonexistent", code=2))
        self.pool_command(pool, "list", code=1)  # the machine believes nobody of that name
        watcher = Watcher(
            pool, "claims", token="secret", ca=other, address=pool.get("/v1/pool")["grpc"]
        )
        self.addCleanup(watcher.stop)
        self.assertIn("code 14", watcher.ends())
        # Unencrypted requests to these endpoints fail.
        with self.assertRaises(OSError):
            urllib.request.urlopen(pool.url.replace("https", "http") + "/healthz", timeout=60)
        self.pool_command(pool, "list", url=pool.url.replace("https", "http"), code=1)

    def test_a_ca_takes_no_plain_pool(self):
        pool = self.serve(token="secret")
        done = subprocess.run(
            [FARCALL, "ps", "--endpoint", pool.endpoint, "--ca", self.ca],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "FARCALL_TOKEN": "secret"},
        )
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("its gRPC has no TLS", done.stderr)

    def test_files_that_cannot_be_are_refused_in_one_line(self):
        _, other_key = self.files["other"]
        for flags, why in (
            (["--tls-cert", self.ca], "takes both"),
            (["--tls-cert", "/nonexistent", "--tls-key", self.key], "'/nonexistent'"),
            (["--tls-cert", self.ca, "--tls-key", other_key], "not this certificate's key"),
            (["--tls-cert", self.key, "--tls-key", self.key], "no certificate"),
        ):
            done = subprocess.run(
                [
                    FARCALL,
                    "pool",
                    "serve",
                    "--store",
                    self.store,
                    "--listen",
                    "127.0.0.1:0",
                    "--rest",
                    "127.0.0.1:0",
                    "--grpc",
                    "127.0.0.1:0",
                    *flags,
                ],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
