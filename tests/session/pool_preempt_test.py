# SPDX-License-Identifier: Apache-2.0
"""A claim of a higher queue priority takes the place of a preemptible one, which is warned and comes back."""

import subprocess
import unittest

from harness import FARCALL, until
from pool_case import MIB, PoolCase

GRACE_S = 3


class Preemption(PoolCase):
    def ask(self, pool, **request):
        """Most of the one device: two do not fit."""
        (device,) = until(lambda: pool.hosts().get("one"), what="the host")["gpus"]
        most = int(device["memory_bytes"]) * 7 // 10
        return pool.post("/v1/claims", memory_bytes=str(most), **request)

    def state(self, pool, claim):
        return pool.claim(claim["id"])["state"]

    def explain(self, pool, claim):
        done = subprocess.run(
            [FARCALL, "pool", "explain", "--pool", pool.url, claim["id"]],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_program_runs_on_for_the_grace_and_its_claim_comes_back(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", str(GRACE_S))
        self.host(pool, "one")
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        self.assertEqual(low["state"], "bound")
        client = self.teller(pool, FARCALL_CLAIM=low["id"])
        until(lambda: self.state(pool, low) == "active", what="its session")

        high = self.ask(pool, queue_priority=10)
        until(lambda: self.state(pool, low) == "preempting", what="the warning")
        warned = pool.claim(low["id"])
        self.assertEqual((warned["state"], warned["preempted_by"]), ("preempting", high["id"]))
        self.assertIn(
            f"for claim {high['id']}, whose queue priority is higher", self.explain(pool, low)
        )
        self.assertIn("1 claim(s) of a lower priority leave", self.explain(pool, high))
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")  # it runs on

        until(lambda: self.state(pool, high) == "bound", what="the other's place")
        self.assertNotEqual(self.say(client, f"take {MIB}"), "code 0")
        self.assertIn(
            f"the pool has ended claim {low['id']}: preempted by {high['id']}",
            "\n".join(client.err),
        )
        waits = pool.claim(low["id"])
        self.assertEqual(
            (waits["state"], waits["reason"]), ("pending", f"preempted by {high['id']}")
        )
        kinds = [event["kind"] for event in pool.get("/v1/events")["events"]]
        self.assertIn("claim_preempts", kinds)

        pool.call("DELETE", "/v1/claims/" + high["id"])
        until(lambda: self.state(pool, low) == "bound", what="its place again")
        again = self.teller(pool, FARCALL_CLAIM=low["id"])
        self.assertEqual(self.say(again, f"take {100 * MIB}"), "code 0")

    def test_nobody_leaves_for_a_claim_that_is_withdrawn(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", "60")
        self.host(pool, "one")
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        client = self.teller(pool, FARCALL_CLAIM=low["id"])
        until(lambda: self.state(pool, low) == "active", what="its session")
        high = self.ask(pool, queue_priority=10)
        until(lambda: self.state(pool, low) == "preempting", what="the warning")
        pool.call("DELETE", "/v1/claims/" + high["id"])
        self.assertEqual(self.state(pool, low), "active")
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")

    def test_what_is_not_preemptible_stays(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", "0")
        self.host(pool, "one")
        low = self.ask(pool, wait_ms="20000")
        high = self.ask(pool, queue_priority=10, wait_ms="2000")
        self.assertEqual((self.state(pool, low), high["state"]), ("bound", "pending"))

    def test_the_command_line_asks_for_it_and_shows_it(self):
        pool = self.serve()
        self.host(pool, "one")
        asked = subprocess.run(
            [FARCALL, "pool", "request", "--pool", pool.url, "--mem", "64MiB"]
            + ["--queue-priority", "-5", "--preemptible"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertIn("priority -5  preemptible", asked.stdout)
        id = asked.stdout.split()[0]
        changed = subprocess.run(
            [FARCALL, "pool", "set", "--pool", pool.url, id, "--preemptible", "false"]
            + ["--queue-priority", "3"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(changed.returncode, 0, changed.stderr)
        request = pool.claim(id)["request"]
        self.assertEqual((request["queue_priority"], request["preemptible"]), (3, False))


if __name__ == "__main__":
    unittest.main(verbosity=2)
