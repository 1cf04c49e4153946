# SPDX-License-Identifier: Apache-2.0
"""A pool with hosts on the CPU device, for the suites that need one."""

import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from harness import HERE, SERVE, Client, Server, check_reports, until
from stacks import stacks_of

MIB, GIB = 1 << 20, 1 << 30


class Pool:
    def __init__(
        self,
        store,
        *flags,
        token=None,
        rest="127.0.0.1:0",
        grpc="127.0.0.1:0",
        listen="127.0.0.1:0",
        ca=None,
        own=None,
        popen=None,
    ):
        """`ca`, `own`: whom this test believes at REST, and the certificate and key that it shows there."""
        env = dict(os.environ)
        env.pop("FARCALL_TOKEN", None)
        if token:
            env["FARCALL_TOKEN"] = token
        self.token = token
        self.tls = ssl.create_default_context(cafile=ca) if ca else None
        if own:
            self.tls.load_cert_chain(*own)
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen(
            [
                str(SERVE),
                "pool",
                "serve",
                "--store",
                str(store),
                "--listen",
                listen,
                "--rest",
                rest,
                "--grpc",
                grpc,
                "--settle",
                "1",
                *flags,
            ],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
            **(popen or {}),
        )
        line = self.process.stdout.readline()
        found = re.search(r"^farcall: pool on (pools?://\S+), REST on (https?://\S+)$", line)
        assert found, f"no ready line but {line!r}; log: {self.log_text()}"
        self.endpoint, self.url = found.groups()

    def log_text(self):
        return pathlib.Path(self.log.name).read_text()

    def addresses(self):
        return {
            "listen": self.endpoint.split("://")[1],
            "rest": self.url.split("://")[1],
            "grpc": self.get("/v1/pool")["grpc"],
        }

    def call(self, method, path, body=None, headers=None):
        """(status, answer)"""
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        request = urllib.request.Request(
            self.url + path,
            method=method,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=80, context=self.tls) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except TimeoutError:
            told = stacks_of(self.process.pid)
            raise AssertionError(f"{method} {path}: no answer: {told}") from None

    def get(self, path):
        status, answer = self.call("GET", path)
        assert status == 200, answer
        return answer

    def post(self, path, **body):
        status, answer = self.call("POST", path, body)
        assert status in (200, 201), answer
        return answer

    def claim(self, id):
        return self.get("/v1/claims/" + id)

    def hosts(self):
        return {host["name"]: host for host in self.get("/v1/hosts")["hosts"]}

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                told = stacks_of(self.process.pid)
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"it does not end: {told}\n{self.log_text()}") from None
        self.process.stdout.close()
        check_reports(self.log_text())


class PoolCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = pathlib.Path(folder.name, "pool.db")

    def serve(self, *flags, **options):
        pool = Pool(self.store, *flags, **options)
        self.addCleanup(pool.stop)
        return pool

    def join_token(self, pool, **request):
        """A file with a new one."""
        path = self.store.with_name(f"join-{len(list(self.store.parent.iterdir()))}")
        path.write_text(pool.post("/v1/join-tokens", **request)["token"] + "\n")
        return str(path)

    def host(self, pool, name, *flags, through=None, **options):
        if "--pool-token-file" in flags:  # its credential is kept there
            options.setdefault("environment", {"FARCALL_CACHE_DIR": str(self.store.parent)})
        server = Server("--pool", through or pool.url, "--pool-name", name, *flags, **options)
        self.addCleanup(server.stop)
        until(
            lambda: pool.hosts().get(name, {}).get("state") == "ready", what=f"{name} in the pool"
        )
        return server

    def teller(self, pool, **environment):
        client = Client(
            pool.endpoint,
            sys.executable,
            HERE / "programs/teller.py",
            stdin=subprocess.PIPE,
            environment=environment,
        )
        client.wait_line("ready")
        self.addCleanup(client.kill)
        return client

    @staticmethod
    def say(client, line):
        told = len(client.out)
        client.process.stdin.write(line + "\n")
        client.process.stdin.flush()
        until(lambda: len(client.out) > told or client.process.poll() is not None, what=line)
        return client.out[-1]
