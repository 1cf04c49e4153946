# SPDX-License-Identifier: Apache-2.0
"""A claim whose place another takes is parked on its host, and its program goes on afterwards."""

import unittest

from harness import until
from pool_case import MIB, PoolCase


class Parking(PoolCase):
    def ask(self, pool, **request):
        """Most of the one device: two do not fit."""
        (device,) = until(lambda: pool.hosts().get("one"), what="the host")["gpus"]
        most = int(device["memory_bytes"]) * 7 // 10
        return pool.post("/v1/claims", memory_bytes=str(most), **request)

    def state(self, pool, claim):
        return pool.claim(claim["id"])["state"]

    def preempted(self, *flags):
        pool = self.serve("--min-run", "0", "--preempt-grace", "1")
        self.host(pool, "one", *flags)
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        client = self.teller(pool, FARCALL_CLAIM=low["id"])
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")
        until(lambda: self.state(pool, low) == "active", what="its session")
        high = self.ask(pool, queue_priority=10)
        return pool, low, client, high

    def test_its_program_waits_and_goes_on(self):
        pool, low, client, high = self.preempted("--park-claims")
        until(lambda: self.state(pool, low) == "parked", what="parking")
        until(lambda: self.state(pool, high) == "bound", what="the other's place")
        host = pool.hosts()["one"]
        self.assertGreater(int(host["parked_bytes"]), 0)
        self.assertEqual(host["gpus"][0]["claims"], 1)
        other = self.teller(pool, FARCALL_CLAIM=high["id"])
        self.assertEqual(self.say(other, f"take {100 * MIB}"), "code 0")
        told = pool.post(f"/v1/claims/{low['id']}:explain")
        self.assertIn("parked on one", told["why"])
        self.assertIn("no other GPU of the host will do", told["why"])
        self.assertEqual(told["place_in_queue"], 1)
        (queued,) = pool.get("/v1/queue")["claims"]
        self.assertEqual(queued["claim"]["id"], low["id"])

        pool.call("DELETE", "/v1/claims/" + high["id"])
        until(lambda: self.state(pool, low) == "active", what="its place again")
        self.assertEqual(pool.claim(low["id"])["epoch"], low["epoch"])
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")

    def test_a_host_without_it_ends_the_session(self):
        pool, low, client, high = self.preempted()
        until(lambda: self.state(pool, high) == "bound", what="the other's place")
        self.assertEqual(self.state(pool, low), "pending")
        self.assertNotEqual(self.say(client, f"take {MIB}"), "code 0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
