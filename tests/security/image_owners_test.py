# SPDX-License-Identifier: Apache-2.0
"""Images belong to who sent them: another claim of the pool, or another token, neither gets one by its hash nor learns that it is there."""

import hashlib
import os
import pathlib
import subprocess
import tempfile
import unittest

from harness import Server, run, until
from pool_case import MIB, PoolCase


def owners(cache):
    """The images that a server keeps, by owner."""
    folders = pathlib.Path(cache, "server").iterdir()
    return {
        folder.name: {path.name for path in folder.iterdir() if path.is_file()}
        for folder in folders
    }


def images(cache):
    return [
        path
        for path in pathlib.Path(cache, "server").glob("*/*")
        if path.is_file() and len(path.name) == 64
    ]


def is_whole(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() == path.name


class OfAPool(PoolCase):
    def test_each_claim_has_images_of_its_own(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        pool = self.serve()
        self.host(pool, "one", environment={"FARCALL_CACHE_DIR": cache.name})
        ids = [
            pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")["id"]
            for _ in range(2)
        ]
        kept = []
        for claim in ids + ids:
            client = run(pool.endpoint, "steps", 2, 0, environment={"FARCALL_CLAIM": claim})
            self.assertEqual(client.process.returncode, 0, client.err)
            # The second claim was told of none, so that it sent all of them itself. They are written a moment later.
            count = len(set(ids[: len(kept) + 1]))
            until(
                lambda: len(owners(cache.name)) == count
                and all(owners(cache.name).values())
                and len(set(map(frozenset, owners(cache.name).values()))) == 1,
                what="each claim that ran has all images",
            )
            kept.append(owners(cache.name))
        second = kept[1]
        self.assertEqual(kept[3], second)
        for claim in ids:
            self.assertNotIn(claim, str(second), "names of folders reveal nobody")


class OfServers(unittest.TestCase):
    def test_each_token_has_images_of_its_own(self):
        with tempfile.TemporaryDirectory() as cache:
            for token in ("one", "two", None):
                with Server(token=token, environment={"FARCALL_CACHE_DIR": cache}) as server:
                    self.assertEqual(
                        run(server.url, "steps", 2, 0, token=token).process.returncode, 0
                    )
            kept = list(owners(cache).values())
            self.assertEqual(len(kept), 3)
            self.assertEqual(kept, [kept[0]] * 3)


class OnDisk(unittest.TestCase):
    def setUp(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        self.cache = cache.name

    def server(self, *flags):
        return Server(*flags, environment={"FARCALL_CACHE_DIR": self.cache})

    def steps(self, server):
        # A client that remembers nothing waits for each load, and sends again what the server has lost.
        with tempfile.TemporaryDirectory() as own:
            client = run(server.url, "steps", 2, 0, environment={"FARCALL_CACHE_DIR": own})
        self.assertEqual(client.process.returncode, 0, client.err)
        return client.stats()["bytes_out"]

    def test_the_next_session_does_not_send_it_again(self):
        with self.server() as server:
            first = self.steps(server)
            until(lambda: images(self.cache), what="the image is kept")
            self.assertTrue(all(map(is_whole, images(self.cache))))
            self.assertLess(self.steps(server), first)

    def test_a_changed_file_is_removed_and_sent_again(self):
        with self.server() as server:
            first = self.steps(server)
            (path,) = until(lambda: images(self.cache), what="the image is kept")
            path.chmod(0o600)
            path.write_bytes(bytes(path.stat().st_size))
            self.assertGreaterEqual(self.steps(server), first)
            # That session, or the next one, has it written again.
            until(lambda: not path.exists() or is_whole(path), what="it is gone")
            self.steps(server)
            until(lambda: path.exists() and is_whole(path), what="it is kept again")

    def test_what_is_read_was_used_now(self):
        with self.server() as server:
            self.steps(server)
            (path,) = until(lambda: images(self.cache), what="the image is kept")
            os.utime(path, (1, 1))
            self.steps(server)
            until(lambda: path.stat().st_mtime > 1, what="it was used")

    @unittest.skipIf(os.geteuid() != 0, "only root can start workers as other users")
    def test_workers_of_other_users_keep_images_and_compiled_kernels(self):
        with self.server("--worker-users", "700000-700003") as server:
            kernels = lambda: {
                path: (path.stat().st_ino, path.stat().st_mtime_ns, path.stat().st_uid)
                for path in pathlib.Path(self.cache).rglob("*.ptxobj")
            }
            first = self.steps(server)
            (path,) = until(lambda: images(self.cache), what="the image is kept")
            compiled = kernels()
            self.assertTrue(compiled)
            self.assertEqual(path.stat().st_uid, 0)
            # Each session is another user's. What is not taken as it is would be written anew. One that the first
            # session ended without writing may come to it.
            for _ in range(2):
                self.assertLess(self.steps(server), first)
                now = kernels()
                self.assertEqual({kernel: now.get(kernel) for kernel in compiled}, compiled)
            # Without a descriptor, none reaches them.
            for file in (path, *compiled):
                for user in range(700000, 700004):
                    said = subprocess.run(
                        [
                            "setpriv",
                            f"--reuid={user}",
                            f"--regid={user}",
                            "--clear-groups",
                            "cat",
                            file,
                        ],
                        capture_output=True,
                    )
                    self.assertNotEqual(said.returncode, 0, file)


if __name__ == "__main__":
    unittest.main()
