# SPDX-License-Identifier: Apache-2.0
"""Records of a controller, played back."""

import stat
import subprocess
import unittest

from harness import FARCALL, until
from pool_case import MIB, PoolCase


class Replay(PoolCase):
    def farcall(self, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *map(str, words)], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code in (0, 3) else done.stderr

    def test_what_a_controller_decided_follows_again_and_what_if_compares(self):
        record = self.store.parent / "pool.rec"
        pool = self.serve("--record", str(record))
        self.host(pool, "one")
        self.farcall("project", "set", "lab", "--pool", pool.url)
        claim = pool.post("/v1/claims", memory_bytes=str(64 * MIB), project="lab", wait_ms="20000")
        waits = pool.post("/v1/claims", memory_bytes=str(1 << 45))
        pool.call("DELETE", "/v1/claims/" + claim["id"])
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="the end of the claim")
        snapshot = self.store.parent / "now.snap"
        self.assertIn("1 hosts", self.farcall("snapshot", snapshot, "--pool", pool.url))
        pool.stop()
        self.assertEqual(stat.S_IMODE(record.stat().st_mode), 0o600)

        said = self.farcall("replay", record)
        self.assertRegex(said, r"^\d+ events in [\d.]+ s of the pool's time: the same followed")
        table = self.farcall("replay", record, "--with", "sequencer=fair").splitlines()
        self.assertRegex(table[1], r"^as it was +fifo +2 +1 +1 +0 ")
        self.assertRegex(table[2], r"^what if +fair +2 +1 +1 +0 ")
        table = self.farcall("replay", snapshot, "--with", "placer=spread", "--run", "30m")
        self.assertRegex(table.splitlines()[2], r"^what if +fifo, spread +1 +0 +1 +0 ")
        self.assertIn(waits["id"].encode(), snapshot.read_bytes())

        # A controller with the same store and another record begins with what there is.
        again = self.serve("--record", str(self.store.parent / "second.rec"))
        again.stop()
        self.farcall("replay", self.store.parent / "second.rec")

    def test_a_file_that_is_none_and_a_rule_that_is_none_are_said_to_be(self):
        text = self.store.parent / "text"
        text.write_text("no record\n")
        said = self.farcall("replay", text, code=2)
        self.assertIn("no record of `farcall pool serve --record`", said)
        self.assertIn("No such file", self.farcall("replay", self.store.parent / "none", code=1))
        wrong = self.farcall("replay", text, "--with", "colour=red", code=2)
        self.assertIn("'colour=red': write sequencer=fair or placer=spread", wrong)
        taken = subprocess.run(
            [FARCALL, "pool", "serve", "--store", self.store.parent / "s.db", "--record", text]
            + ["--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--grpc", "127.0.0.1:0"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(taken.returncode, 1)
        self.assertIn("name a new file", taken.stderr)


if __name__ == "__main__":
    unittest.main()
