# SPDX-License-Identifier: Apache-2.0
"""A pool whose disk is full: it answers hosts and readers, refuses changes, ends no session, and goes on when there is room."""

import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from harness import until
from pool_case import MIB, PoolCase

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
HOLD_S = 4


def own_mounts():
    """Mounts of this process and its children alone; False: they may not be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    return (
        libc.unshare(CLONE_NEWNS) == 0
        and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
    )


class FullDisk(PoolCase):
    def setUp(self):
        super().setUp()
        folder = pathlib.Path(tempfile.mkdtemp(prefix="farcall-full-"))
        self.addCleanup(folder.rmdir)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "farcall-full", folder], check=True
        )
        self.addCleanup(lambda: subprocess.run(["umount", "-l", folder], check=True))
        self.store = folder / "pool.db"
        self.filler = folder / "filler"

    def fill(self):
        with open(self.filler, "wb", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def frozen(self, pool):
        """Some writes still fit into what the store has; then none."""

        def refused():
            status, answer = pool.call(
                "POST", "/v1/claims", {"memory_bytes": str(MIB), "host": "none", "model": "x" * 200}
            )
            return answer if status == 503 else None

        return until(refused, 60, "a refusal")

    def test_it_refuses_changes_and_answers_everything_else(self):
        pool = self.serve()
        host = self.host(pool, "one")
        claim = pool.post(
            "/v1/claims", memory_bytes=str(256 * MIB), hold_ms=str(HOLD_S * 1000), wait_ms="20000"
        )
        client = self.teller(pool, FARCALL_CLAIM=claim["id"])
        path = "/v1/claims/" + claim["id"]
        until(lambda: pool.claim(claim["id"])["state"] == "active", what="active")
        workers = host.workers()
        self.fill()
        answer = self.frozen(pool)
        self.assertEqual(answer["code"], "unavailable", answer)
        self.assertRegex(
            answer["message"], r"^nothing can be changed now: the pool's store: .*full"
        )
        self.assertIn("changes are refused until it has room, sessions go on", pool.log_text())
        # What changes something is refused, and has changed nothing.
        known = {
            each["id"]
            for each in pool.get("/v1/claims?limit=1000")["claims"]
            if each["state"] == "pending"
        }
        for method, at, body in (
            ("DELETE", path, None),
            ("PATCH", path, {"share_milli": 100}),
            ("POST", "/v1/claims", {}),
            ("POST", "/v1/hosts/one:drain", {}),
        ):
            self.assertEqual(pool.call(method, at, body)[0], 503, (method, at))
        self.assertEqual(
            {
                each["id"]
                for each in pool.get("/v1/claims?limit=1000")["claims"]
                if each["state"] == "pending"
            },
            known,
        )
        # Readers are answered, and whoever comes for a lease.
        self.assertEqual(pool.hosts()["one"]["state"], "ready")
        self.assertEqual(pool.claim(claim["id"])["state"], "active")
        self.assertTrue(pool.post(path + ":connect")["token"])
        other = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(self.say(other, f"take {MIB}"), "code 0")
        # Longer than the host holds the claim without an answer: its heartbeats are answered.
        end = time.monotonic() + 2.5 * HOLD_S
        while time.monotonic() < end:
            self.assertEqual(self.say(client, "take 4096"), "code 0", client.err)
            time.sleep(0.2)
        self.assertIsNone(pool.process.poll())
        self.filler.unlink()
        until(lambda: pool.call("PATCH", path, {"share_milli": 100})[0] == 200, 60, "room again")
        self.assertIn("takes changes again", pool.log_text())
        self.assertEqual(
            pool.post("/v1/claims", memory_bytes=str(MIB), wait_ms="20000")["state"], "bound"
        )
        self.assertEqual(self.say(client, "take 4096"), "code 0")
        self.assertLessEqual(set(workers), set(host.workers()))
        # What was answered before and after is in the store.
        addresses = pool.addresses()
        pool.stop()
        again = self.serve(**addresses)
        until(lambda: again.claim(claim["id"])["state"] == "active", what="the claim in the store")
        self.assertEqual(again.claim(claim["id"])["request"]["share_milli"], 100)
        self.assertEqual(self.say(client, "take 4096"), "code 0")

    def test_another_controller_still_fences_it(self):
        first = self.serve()
        self.fill()
        self.frozen(first)
        self.filler.unlink()
        self.serve()
        self.assertEqual(first.process.wait(timeout=30), 3)


if __name__ == "__main__":
    if os.geteuid() != 0 or not own_mounts():
        print("this test mounts a small disk of its own: it needs root")
        sys.exit(77)
    unittest.main()
