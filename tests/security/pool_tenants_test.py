# SPDX-License-Identifier: Apache-2.0
"""A pool of several tenants: a nosy client finds nothing of others', and a rogue host takes nobody's place."""
import json
import subprocess
import time
import unittest
import urllib.request

from harness import FARCALL, until
from pool_case import MIB, PoolCase


def is_tenants(answer):
    return str(answer.get("tenant", "")).startswith("token-")


class TenantsCase(PoolCase):
    def setUp(self):
        super().setUp()
        self.verifiers = self.store.with_name("verifiers")

    def token(self, name):
        made = subprocess.run([FARCALL, "token", "new", "--verifier", self.verifiers, "--name", name], capture_output=True, text=True,
                              timeout=60, check=True)
        # It is printed only if no file is named.
        return made.stdout.strip()

    def tenants_pool(self, *flags):
        self.alice, self.bob = self.token("alice"), self.token("bob")
        return self.serve("--token-verifier", str(self.verifiers), *flags, token="operator")

    @staticmethod
    def as_(token):
        return {"Authorization": "Bearer " + token}


class NosyClient(TenantsCase):
    def test_others_claims_do_not_exist(self):
        pool = self.tenants_pool()
        alice, bob = self.as_(self.alice), self.as_(self.bob)
        status, claim = pool.call("POST", "/v1/claims", {"memory_bytes": str(64 * MIB), "owner": "bob"}, alice)
        self.assertEqual((status, is_tenants(claim), claim["owner"]), (201, True, "bob"), claim)
        path = "/v1/claims/" + claim["id"]
        missing = "/v1/claims/c-0000000000000000"
        for method, verb, body in (("GET", "", None), ("DELETE", "", None), ("PATCH", "", {"share_milli": 1}), ("POST", ":renew", {}),
                                   ("POST", ":explain", {}), ("POST", ":connect", {})):
            told, absent = (pool.call(method, at + verb, body, bob) for at in (path, missing))
            self.assertEqual((told[0], absent[0]), (404, 404), (method, verb))
            self.assertEqual(json.dumps(told[1]).replace(claim["id"], "ID"), json.dumps(absent[1]).replace(missing[-18:], "ID"), (method, verb))
        self.assertEqual(pool.call("GET", "/v1/claims", headers=bob)[1], {"claims": [], "next_page_token": "", "total": 0})
        self.assertEqual(pool.call("GET", "/v1/events", headers=bob)[1]["events"], [])
        self.assertEqual({event["claim"] for event in pool.call("GET", "/v1/events", headers=alice)[1]["events"]} - {claim["id"]}, set())
        self.assertEqual(pool.call("GET", path, headers=alice)[1]["id"], claim["id"])
        self.assertEqual(pool.claim(claim["id"])["id"], claim["id"], "the operator sees all")
        self.assertEqual(pool.call("PATCH", path, {"share_milli": 1}, alice)[0], 200)
        self.assertEqual(pool.call("DELETE", path, headers=alice)[0], 200)

    def test_what_is_watched_is_ones_own(self):
        pool = self.tenants_pool()
        request = urllib.request.Request(pool.url + "/v1/claims?watch=1", headers=self.as_(self.bob))
        stream = urllib.request.urlopen(request, timeout=60)
        self.addCleanup(stream.close)
        hers = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, self.as_(self.alice))[1]["id"]
        his = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, self.as_(self.bob))[1]["id"]
        seen = []
        while not any(his in line for line in seen):
            seen.append(stream.readline().decode())
        self.assertFalse([line for line in seen if hers in line], seen)

    def test_hosts_and_sessions_are_the_operators(self):
        pool = self.tenants_pool()
        for method, path in (("POST", "/v1/hosts/one:drain"), ("POST", "/v1/hosts/one:cordon"), ("POST", "/v1/hosts/one:uncordon"),
                             ("GET", "/v1/sessions")):
            status, error = pool.call(method, path, {} if method == "POST" else None, self.as_(self.alice))
            self.assertEqual((status, error["code"]), (403, "forbidden"), path)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=self.as_("0" * 64))[0], 401)
        self.assertEqual(pool.call("GET", "/v1/claims", headers={"Authorization": ""})[0], 401)

    def test_an_idempotency_key_is_its_tenants(self):
        pool = self.tenants_pool()
        key = {"Idempotency-Key": "deploy-1"}
        first, second = (pool.call("POST", "/v1/claims", {"memory_bytes": size}, {**self.as_(token), **key})
                         for token, size in ((self.alice, "1"), (self.bob, "2")))
        self.assertEqual((first[0], second[0]), (201, 201), second)
        self.assertNotEqual(first[1]["id"], second[1]["id"])
        self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, {**self.as_(self.alice), **key})[1]["id"], first[1]["id"])
        # Also after a restart.
        addresses = pool.addresses()
        pool.stop()
        pool = self.serve("--token-verifier", str(self.verifiers), token="operator", **addresses)
        self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "2"}, {**self.as_(self.bob), **key})[1]["id"], second[1]["id"])
        self.assertEqual(pool.call("GET", "/v1/claims/" + first[1]["id"], headers=self.as_(self.bob))[0], 404)

    def test_one_tenant_takes_so_many_and_others_are_served(self):
        pool = self.tenants_pool("--max-tenant-claims", "8")
        alice, bob = self.as_(self.alice), self.as_(self.bob)
        made = [pool.call("POST", "/v1/claims", {"memory_bytes": str(1 << 50)}, alice) for _ in range(8)]
        self.assertEqual({status for status, _ in made}, {201})
        status, error = pool.call("POST", "/v1/claims", {}, alice)
        self.assertEqual((status, error["code"]), (429, "too_many"))
        self.assertIn("this token has 8 of 8", error["message"])
        self.assertEqual(pool.call("POST", "/v1/claims", {}, bob)[0], 201)
        # One that is over makes room, but not for any number a minute.
        self.assertEqual(pool.call("DELETE", "/v1/claims/" + made[0][1]["id"], headers=alice)[0], 200)
        end, kept, answers = time.monotonic() + 3, 0, []
        while time.monotonic() < end:
            status, answer = pool.call("POST", "/v1/claims", {}, alice)
            answers.append(status)
            if status == 201:
                kept += 1
                pool.call("DELETE", "/v1/claims/" + answer["id"], headers=alice)
        self.assertIn(429, answers)
        self.assertLess(kept, 40, "240 a minute are allowed")


if __name__ == "__main__":
    unittest.main()
