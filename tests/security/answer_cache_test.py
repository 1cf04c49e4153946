# SPDX-License-Identifier: Apache-2.0
"""What one server has answered is never believed of another: a client's caches are kept by server."""

import pathlib
import subprocess
import tempfile
import unittest

from harness import BUILD, FARCALL, KEPT, Server, run, waits_but_for_memory


class AnswerCache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = folder.name

    def waits(self, server, token=None):
        client = run(
            server.url, "steps", 10, 0, token=token, environment={"FARCALL_CACHE_DIR": self.cache}
        )
        self.assertEqual(client.process.returncode, 0, client.err)
        return waits_but_for_memory(client.stats())

    def kept(self):
        return {path.name for path in pathlib.Path(self.cache, "client").iterdir()}

    def test_of_another_endpoint(self):
        with Server() as first, Server() as second:
            cold, warm = self.waits(first), self.waits(first)
            self.assertLess(warm, cold)
            kept = self.kept()
            self.assertEqual(self.waits(second), cold)
            self.assertEqual(len(self.kept()), 2 * len(kept))
            self.assertEqual(self.waits(first), warm)

    def test_of_the_same_endpoint_before_a_token_was_asked_for(self):
        with Server() as open_server:
            cold, _ = self.waits(open_server), self.waits(open_server)
            listen = open_server.url
        with Server(token="secret", listen=listen) as guarded:
            self.assertEqual(self.waits(guarded, token="secret"), cold)

    def test_private_servers_are_one(self):
        for _ in range(2):
            done = subprocess.run(
                [FARCALL, "run", "--device", "cpu", "--", BUILD / "tests/session/steps", "1", "0"],
                capture_output=True,
                timeout=60,
                env={
                    "PATH": "/usr/bin:/bin",
                    "HOME": self.cache,
                    "FARCALL_CACHE_DIR": self.cache,
                    **KEPT,
                },
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            if _ == 0:
                kept = self.kept()
        self.assertEqual(self.kept(), kept)


if __name__ == "__main__":
    unittest.main()
