# SPDX-License-Identifier: Apache-2.0
"""Images belong to who sent them: another claim of the pool, or another token, neither gets one by its hash nor learns that it is there."""
import pathlib
import tempfile
import unittest

from harness import Server, run
from pool_case import MIB, PoolCase


def owners(cache):
    """The images that a server keeps, by owner."""
    folders = pathlib.Path(cache, "server").iterdir()
    return {folder.name: {path.name for path in folder.iterdir()} for folder in folders}


class OfAPool(PoolCase):
    def test_each_claim_has_images_of_its_own(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        pool = self.serve()
        self.host(pool, "one", environment={"FARCALL_CACHE_DIR": cache.name})
        ids = [pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")["id"] for _ in range(2)]
        kept = []
        for claim in ids + ids:
            client = run(pool.endpoint, "steps", 2, 0, environment={"FARCALL_CLAIM": claim})
            self.assertEqual(client.process.returncode, 0, client.err)
            kept.append(owners(cache.name))
        first, second = kept[0], kept[1]
        self.assertEqual((len(first), len(second)), (1, 2))
        sent, = first.values()
        self.assertTrue(sent)
        # The second claim was told of none, so that it sent all of them itself.
        self.assertEqual(list(second.values()), [sent, sent])
        self.assertEqual(kept[3], second)
        for claim in ids:
            self.assertNotIn(claim, str(second), "names of folders reveal nobody")


class OfServers(unittest.TestCase):
    def test_each_token_has_images_of_its_own(self):
        with tempfile.TemporaryDirectory() as cache:
            for token in ("one", "two", None):
                with Server(token=token, environment={"FARCALL_CACHE_DIR": cache}) as server:
                    self.assertEqual(run(server.url, "steps", 2, 0, token=token).process.returncode, 0)
            kept = list(owners(cache).values())
            self.assertEqual(len(kept), 3)
            self.assertEqual(kept, [kept[0]] * 3)


if __name__ == "__main__":
    unittest.main()
