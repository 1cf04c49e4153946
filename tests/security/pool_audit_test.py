# SPDX-License-Identifier: Apache-2.0
"""A pool's audit: who changed what, when and from where; and that a change of it is found."""

import json
import os
import sqlite3
import subprocess
import unittest

from harness import FARCALL, until
from pool_case import PoolCase


class Audit(PoolCase):
    def audited_pool(self):
        pool = self.serve("--accounts")
        if not hasattr(self, "operator"):
            self.operator = pool.log_text().split("shown this once: ")[1].split()[0]
        pool.token = self.operator
        return pool

    def entries(self, pool, at_least=0):
        def told():
            rows = pool.get("/v1/audit?limit=1000")["entries"]
            return rows if len(rows) >= at_least else None

        return [row["entry"] for row in until(told, what=f"{at_least} entries")]

    def audit(self, pool, *words):
        env = {key: value for key, value in os.environ.items() if not key.startswith("FARCALL_")}
        env.update(FARCALL_POOL=pool.url, FARCALL_TOKEN=self.operator)
        return subprocess.run(
            [FARCALL, "pool", "audit", *words], capture_output=True, text=True, env=env, timeout=60
        )

    def test_it_says_who_did_what_from_where(self):
        pool = self.audited_pool()
        pool.post("/v1/users", name="alice", roles=[{"role": "user"}])
        made = pool.post("/v1/tokens", user="alice")
        alice = {"Authorization": "Bearer " + made["token"]}
        status, claim = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, alice)
        self.assertEqual(status, 201)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=alice)[0], 200)
        self.assertEqual(pool.call("POST", "/v1/users", {"name": "eve"}, alice)[0], 403)
        self.assertEqual(pool.call("DELETE", "/v1/claims/" + claim["id"], headers=alice)[0], 200)
        found = self.entries(pool, 5)
        self.assertEqual(
            [(e["actor"], e["verb"], e["object"], e["status"]) for e in found],
            [
                ("operator", "users.add", "alice", 200),
                ("operator", "tokens.new", "alice", 200),
                ("alice", "claims.request", claim["id"], 200),
                ("alice", "users.add", "", 403),
                ("alice", "claims.release", claim["id"], 200),
            ],
        )
        self.assertEqual({e["source"] for e in found}, {"127.0.0.1"})
        self.assertEqual(found[2]["token"], made["id"])
        self.assertNotIn(made["token"], json.dumps(found))
        self.assertEqual(pool.call("GET", "/v1/audit", headers=alice)[0], 403)
        listed = self.audit(pool)
        self.assertEqual(
            (listed.returncode, len(listed.stdout.splitlines())), (0, 5), listed.stderr
        )
        self.assertIn("alice  127.0.0.1  refused: users.add", listed.stdout)

    def test_a_changed_removed_or_reordered_entry_is_found(self):
        pool = self.audited_pool()
        for name in ("a", "b", "c", "d"):
            pool.post("/v1/users", name=name)
        self.entries(pool, 4)
        whole = self.audit(pool, "verify")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        newest = whole.stdout.split()[-1]
        pool.stop()
        kept = self.store.read_bytes()
        second, third = (f"{number:020}" for number in (2, 3))
        for change, says in (
            (
                f"UPDATE audit SET value = replace(value, 'operator', 'nobody') WHERE key = '{second}'",
                "entry 2 was changed",
            ),
            (f"DELETE FROM audit WHERE key = '{second}'", "entry 2 is missing"),
            ("DELETE FROM audit WHERE key > '" + third + "'", "entry 4 is missing"),
            (
                f"UPDATE audit SET key = 'x' WHERE key = '{second}';"
                f"UPDATE audit SET key = '{second}' WHERE key = '{third}';"
                f"UPDATE audit SET key = '{third}' WHERE key = 'x'",
                "entry 2 was moved",
            ),
            (
                f"UPDATE audit SET value = 'no JSON' WHERE key = '{second}'",
                "entry 2 cannot be read",
            ),
        ):
            with self.subTest(says):
                self.store.write_bytes(kept)
                database = sqlite3.connect(self.store)
                database.executescript(change)
                database.close()
                pool = self.audited_pool()
                done = self.audit(pool, "verify")
                pool.stop()
                self.assertEqual((done.returncode, says in done.stderr), (1, True), done)
        # The chain goes on in another controller's life, and one that was kept is found in it.
        self.store.write_bytes(kept)
        pool = self.audited_pool()
        pool.post("/v1/users", name="e")
        self.entries(pool, 5)
        done = self.audit(pool, "verify", "--hash", newest)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("entries 1 to 5 are whole", done.stdout)
        other = self.audit(pool, "verify", "--hash", "0" * 64)
        self.assertEqual(other.returncode, 1)
        self.assertIn("no entry has the hash", other.stderr)


if __name__ == "__main__":
    unittest.main()
