# SPDX-License-Identifier: Apache-2.0
"""The processes beside a supervisor, taken over inside their sandbox (escape_attempt.c): probes, the
one that asks NVML, farcall-control, a pool's agent. None opens a file that is not its business,
looks into another process, or starts one."""

import errno
import os
import re
import subprocess
import tempfile
import unittest

from harness import BUILD, FARCALL, Client, Server, until
from pool_case import PoolCase

ATTEMPT = BUILD / "tests/security/escape_attempt.so"
FAKE_GPU = BUILD / "tests/session/fake_gpu/libcuda.so.1"
SAID = re.compile(r"escape open (\d+) write (\d+) ptrace (\d+) fork (\d+) exec (\d+) by (.*)")
KEPT_IN = (errno.EACCES, errno.EACCES, errno.ENOSYS, errno.ENOSYS, errno.ENOSYS)


class Helpers(PoolCase):
    def setUp(self):
        super().setUp()
        self.folder = self.store.parent
        self.canary = self.folder / "canary"
        self.canary.write_text("secret")
        # A sanitizer's runtime is the first.
        preloaded = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), str(ATTEMPT)]))
        self.environment = {"LD_PRELOAD": preloaded, "FARCALL_TEST_CANARY": str(self.canary)}

    def attempt_of(self, server, command):
        """What the process of that command could do, by the log."""

        def found():
            return [said for said in SAID.findall(server.log_text()) if command in said[-1]]

        until(found, 60, lambda: f"{command}: {server.log_text()}")
        return tuple(map(int, found()[0][:5]))

    def test_a_probe(self):
        with Server(environment=self.environment) as server:
            self.assertEqual(self.attempt_of(server, "worker probe"), KEPT_IN)

    def test_the_process_that_asks_nvml(self):
        with Server(device=FAKE_GPU, environment=self.environment) as server:
            client = Client(server.url, "hold", 1, stdin=subprocess.PIPE)
            self.addCleanup(client.kill)
            client.wait_line("held")
            self.assertEqual(self.attempt_of(server, "worker process-memory"), KEPT_IN)
            client.kill()

    def ps(self, path):
        done = subprocess.run(
            [FARCALL, "ps", "--json", "--control", path], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_farcall_control(self):
        path = self.folder / "control.sock"
        for more in ((), ("--metrics", "127.0.0.1:0")):
            with (
                self.subTest(more=more),
                Server("--control", path, *more, environment=self.environment) as server,
            ):
                self.ps(path)
                self.assertEqual(self.attempt_of(server, "farcall-control"), KEPT_IN)

    def test_a_pools_agent(self):
        pool = self.serve()
        with tempfile.TemporaryDirectory() as cache:
            server = self.host(
                pool, "a", environment={**self.environment, "FARCALL_CACHE_DIR": cache}
            )
            self.assertEqual(self.attempt_of(server, "farcall-pool agent"), KEPT_IN)
            server.stop()

    def test_a_report_covers_them(self):
        path = self.folder / "control.sock"
        with Server(
            "--control",
            path,
            "--worker-calls",
            "report",
            environment={**self.environment, "FARCALL_TEST_STAYS": "1"},
        ) as server:
            self.ps(path)
            opened, written, *_ = self.attempt_of(server, "farcall-control")
            self.assertEqual(
                (opened, written), (errno.EACCES, errno.EACCES), "files are held back all the same"
            )
            self.assertRegex(
                server.log_text(),
                r"farcall-control \d+: system call \d+\(.*\) is not on the list; allowed",
            )


if __name__ == "__main__":
    unittest.main()
