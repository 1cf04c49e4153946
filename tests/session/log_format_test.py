#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Log lines of a server, its workers, its agent at a pool, and a client have one form (docs/guide/monitoring.md)."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from harness import BUILD, FARCALL, Server, until

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (error|warn|info|debug|trace) farcall-([a-z0-9-]+): \S.*"
)
PROGRAM = BUILD / "tests/session/big_copy"


def parsed(text):
    """(level, component) of each line; a line of another form fails."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, f"another form: {line!r}"
        found.append(match.groups())
    return found


class LogFormat(unittest.TestCase):
    def client(self, endpoint, **environment):
        done = subprocess.run(
            [PROGRAM, "1"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
                "FARCALL_ENDPOINT": endpoint,
                **environment,
            },
        )
        return done.stderr

    def test_server_worker_and_client(self):
        server = Server("--log-level", "trace", environment={"FARCALL_LOG": "trace"})
        try:
            client = self.client(server.url, FARCALL_LOG="trace")
        finally:
            server.stop()
        log = server.log_text()
        components = {component for _, component in parsed(log)}
        self.assertEqual(components, {"server", "worker", "cpu-device"}, log)
        self.assertEqual({component for _, component in parsed(client)}, {"client"})
        self.assertIn(f" farcall-server: session 1 ({os.environ.get('USER', 'root')}@", log)
        self.assertIn(" farcall-worker: session 1 (", log)
        self.assertRegex(log, r" info farcall-worker: session 1 \(.*\): cpu-device: ")

    def test_the_level_is_the_variable_s(self):
        nowhere = "tcp://127.0.0.1:1"
        self.assertEqual(parsed(self.client(nowhere, FARCALL_LOG="error"))[0], ("error", "client"))
        self.assertEqual(self.client(nowhere, FARCALL_LOG="off"), "")

    def test_the_agent_of_a_pool(self):
        with tempfile.TemporaryDirectory() as folder:
            log, token = pathlib.Path(folder, "log"), pathlib.Path(folder, "token")
            token.write_text("x" * 40 + "\n")
            token.chmod(0o600)
            with log.open("w") as into:
                agent = subprocess.Popen(
                    [FARCALL, "serve", "--listen", "tcp://127.0.0.1:0", "--device", "cpu"]
                    + ["--pool", "http://127.0.0.1:1", "--pool-token-file", token],
                    stdout=subprocess.DEVNULL,
                    stderr=into,
                )
            try:
                until(lambda: " farcall-agent: " in log.read_text() or agent.poll() is not None)
            finally:
                agent.terminate()
                agent.wait()
            components = {component for _, component in parsed(log.read_text())}
            self.assertEqual(components, {"server", "agent"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
