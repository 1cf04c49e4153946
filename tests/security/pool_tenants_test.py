# SPDX-License-Identifier: Apache-2.0
"""A pool of several tenants: a nosy client finds nothing of others', and a rogue host takes nobody's place."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
import urllib.request

from fake_pool import FakePool
from harness import BUILD, FARCALL, HERE, Server, run, until
from pool_case import MIB, PoolCase

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
HOSTILE = "GPU\n\x1b[2J\u202emoor\x07"


def is_tenants(answer):
    return str(answer.get("tenant", "")).startswith("token-")


class TenantsCase(PoolCase):
    def setUp(self):
        super().setUp()
        self.verifiers = self.store.with_name("verifiers")

    def token(self, name):
        made = subprocess.run(
            [FARCALL, "token", "new", "--verifier", self.verifiers, "--name", name],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        # It is printed only if no file is named.
        return made.stdout.strip()

    def tenants_pool(self, *flags):
        self.alice, self.bob = self.token("alice"), self.token("bob")
        return self.serve("--token-verifier", str(self.verifiers), *flags, token="operator")

    @staticmethod
    def as_(token):
        return {"Authorization": "Bearer " + token}


class NosyClient(TenantsCase):
    def test_a_tenant_takes_no_place_in_the_queue_that_it_may_not_have(self):
        pool = self.tenants_pool()
        alice = self.as_(self.alice)
        body = {"memory_bytes": str(64 * MIB), "queue_priority": 1}
        status, told = pool.call("POST", "/v1/claims", body, alice)
        self.assertEqual((status, told["field"]), (403, "queue_priority"), told)
        body["queue_priority"] = -1
        status, claim = pool.call("POST", "/v1/claims", body, alice)
        self.assertEqual(status, 201, claim)
        path = "/v1/claims/" + claim["id"]
        status, told = pool.call("PATCH", path, {"queue_priority": 1}, alice)
        self.assertEqual((status, told["field"]), (403, "queue_priority"), told)
        self.assertEqual(pool.call("PATCH", path, {"queue_priority": 0}, alice)[0], 200)
        self.assertEqual(pool.call("PATCH", path, {"queue_priority": 900})[0], 200)  # the operator

    def test_others_claims_do_not_exist(self):
        pool = self.tenants_pool()
        alice, bob = self.as_(self.alice), self.as_(self.bob)
        status, claim = pool.call(
            "POST", "/v1/claims", {"memory_bytes": str(64 * MIB), "owner": "bob"}, alice
        )
        self.assertEqual((status, is_tenants(claim), claim["owner"]), (201, True, "bob"), claim)
        path = "/v1/claims/" + claim["id"]
        missing = "/v1/claims/c-0000000000000000"
        for method, verb, body in (
            ("GET", "", None),
            ("DELETE", "", None),
            ("PATCH", "", {"share_milli": 1}),
            ("POST", ":renew", {}),
            ("POST", ":explain", {}),
            ("POST", ":connect", {}),
        ):
            told, absent = (pool.call(method, at + verb, body, bob) for at in (path, missing))
            self.assertEqual((told[0], absent[0]), (404, 404), (method, verb))
            self.assertEqual(
                json.dumps(told[1]).replace(claim["id"], "ID"),
                json.dumps(absent[1]).replace(missing[-18:], "ID"),
                (method, verb),
            )
        self.assertEqual(
            pool.call("GET", "/v1/claims", headers=bob)[1],
            {"claims": [], "next_page_token": "", "total": 0},
        )
        self.assertEqual(pool.call("GET", "/v1/events", headers=bob)[1]["events"], [])
        self.assertEqual(
            {event["claim"] for event in pool.call("GET", "/v1/events", headers=alice)[1]["events"]}
            - {claim["id"]},
            set(),
        )
        self.assertEqual(pool.call("GET", path, headers=alice)[1]["id"], claim["id"])
        self.assertEqual(pool.claim(claim["id"])["id"], claim["id"], "the operator sees all")
        self.assertEqual(pool.call("PATCH", path, {"share_milli": 1}, alice)[0], 200)
        self.assertEqual(pool.call("DELETE", path, headers=alice)[0], 200)

    def test_programs_come_in_by_their_own_claims(self):
        pool = self.tenants_pool()
        self.host(pool, "one", "--pool-token-file", self.join_token(pool))
        hers = self.teller(
            pool, FARCALL_MEM="64MiB", FARCALL_VGPU="a run", FARCALL_TOKEN=self.alice
        )
        (claim,) = pool.call("GET", "/v1/claims", headers=self.as_(self.alice))[1]["claims"]
        self.assertEqual(pool.call("GET", "/v1/claims", headers=self.as_(self.bob))[1]["total"], 0)
        # Neither by its name nor by its run's.
        for other in ({"FARCALL_CLAIM": claim["id"]}, {"FARCALL_CLAIM": "c-0000000000000000"}):
            refused = run(
                pool.endpoint,
                sys.executable,
                HERE / "programs/teller.py",
                environment={**other, "FARCALL_TOKEN": self.bob},
            )
            self.assertIn(f"there is no claim '{other['FARCALL_CLAIM']}'", "\n".join(refused.err))
        self.teller(pool, FARCALL_MEM="64MiB", FARCALL_VGPU="a run", FARCALL_TOKEN=self.bob)
        (his,) = pool.call("GET", "/v1/claims", headers=self.as_(self.bob))[1]["claims"]
        self.assertNotEqual(his["id"], claim["id"])
        self.assertEqual(self.say(hers, f"take {MIB}"), "code 0")

    def test_what_is_watched_is_ones_own(self):
        pool = self.tenants_pool()
        request = urllib.request.Request(
            pool.url + "/v1/claims?watch=1", headers=self.as_(self.bob)
        )
        stream = urllib.request.urlopen(request, timeout=60)
        self.addCleanup(stream.close)
        hers = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, self.as_(self.alice))[1]["id"]
        his = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, self.as_(self.bob))[1]["id"]
        seen = []
        while not any(his in line for line in seen):
            seen.append(stream.readline().decode())
        self.assertFalse([line for line in seen if hers in line], seen)

    def test_whoever_looks_at_sessions_sees_its_own_claims_alone(self):
        pool = self.tenants_pool()
        self.host(pool, "one", "--pool-token-file", self.join_token(pool))
        self.teller(pool, FARCALL_MEM="64MiB", FARCALL_VGPU="a run", FARCALL_TOKEN=self.alice)
        (hers,) = pool.call("GET", "/v1/claims", headers=self.as_(self.alice))[1]["claims"]

        def vgpus(**headers):
            hosts = pool.call("GET", "/v1/sessions", **headers)[1]["hosts"]
            return [
                vgpu for host in hosts for vgpu in host.get("status", {}).get("vgpus", [])
            ], hosts

        found = until(lambda: vgpus(headers=self.as_(self.alice))[0], 60, "her vGPU")
        self.assertEqual([vgpu["id"] for vgpu in found], [hers["id"]])
        self.assertEqual(found[0]["devices"][0]["quota_bytes"], str(64 * MIB))
        his, hosts = vgpus(headers=self.as_(self.bob))
        self.assertEqual(his, [])
        for host in hosts:
            told = host.get("status", {})
            self.assertFalse(
                [key for key, value in told.items() if value not in ([], 0, "", "0", False)], told
            )
        self.assertTrue(vgpus()[1][0]["status"]["devices"], "the operator sees all")

    def test_hosts_are_the_operators(self):
        pool = self.tenants_pool()
        for method, path in (
            ("POST", "/v1/hosts/one:drain"),
            ("POST", "/v1/hosts/one:cordon"),
            ("POST", "/v1/hosts/one:uncordon"),
        ):
            status, error = pool.call(
                method, path, {} if method == "POST" else None, self.as_(self.alice)
            )
            self.assertEqual((status, error["code"]), (403, "forbidden"), path)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=self.as_("0" * 64))[0], 401)
        self.assertEqual(pool.call("GET", "/v1/claims", headers={"Authorization": ""})[0], 401)

    def test_an_idempotency_key_is_its_tenants(self):
        pool = self.tenants_pool()
        key = {"Idempotency-Key": "deploy-1"}
        first, second = (
            pool.call("POST", "/v1/claims", {"memory_bytes": size}, {**self.as_(token), **key})
            for token, size in ((self.alice, "1"), (self.bob, "2"))
        )
        self.assertEqual((first[0], second[0]), (201, 201), second)
        self.assertNotEqual(first[1]["id"], second[1]["id"])
        self.assertEqual(
            pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, {**self.as_(self.alice), **key})[
                1
            ]["id"],
            first[1]["id"],
        )
        # Also after a restart.
        addresses = pool.addresses()
        pool.stop()
        pool = self.serve("--token-verifier", str(self.verifiers), token="operator", **addresses)
        self.assertEqual(
            pool.call("POST", "/v1/claims", {"memory_bytes": "2"}, {**self.as_(self.bob), **key})[
                1
            ]["id"],
            second[1]["id"],
        )
        self.assertEqual(
            pool.call("GET", "/v1/claims/" + first[1]["id"], headers=self.as_(self.bob))[0], 404
        )

    def test_one_tenant_takes_so_many_and_others_are_served(self):
        pool = self.tenants_pool("--max-tenant-claims", "8")
        alice, bob = self.as_(self.alice), self.as_(self.bob)
        made = [
            pool.call("POST", "/v1/claims", {"memory_bytes": str(1 << 50)}, alice) for _ in range(8)
        ]
        self.assertEqual({status for status, _ in made}, {201})
        status, error = pool.call("POST", "/v1/claims", {}, alice)
        self.assertEqual((status, error["code"]), (429, "too_many"))
        self.assertIn("this token has 8 of 8", error["message"])
        self.assertEqual(pool.call("POST", "/v1/claims", {}, bob)[0], 201)
        # One that is over makes room, but not for any number a minute.
        self.assertEqual(
            pool.call("DELETE", "/v1/claims/" + made[0][1]["id"], headers=alice)[0], 200
        )
        end, kept, answers = time.monotonic() + 3, 0, []
        while time.monotonic() < end:
            status, answer = pool.call("POST", "/v1/claims", {}, alice)
            answers.append(status)
            if status == 201:
                kept += 1
                pool.call("DELETE", "/v1/claims/" + answer["id"], headers=alice)
        self.assertIn(429, answers)
        self.assertLess(kept, 40, "240 a minute are allowed")


class RogueHost(TenantsCase):
    def joined(self, pool, name, token):
        status, answer = pool.call(
            "POST", "/v1/join", {"host": name, "token": token}, {"Authorization": ""}
        )
        return status, answer.get("credential") or answer["message"]

    def new_token(self, pool, **request):
        return pool.post("/v1/join-tokens", **request)["token"]

    def rogue(
        self, pool, credential, name, gpu="GPU", endpoint="tcp://127.0.0.1:1", beats=1, claims=0
    ):
        env = {"PATH": os.environ["PATH"], **({"FARCALL_TOKEN": credential} if credential else {})}
        command = [
            BUILD / "tests/security/rogue_host",
            pool.addresses()["grpc"],
            name,
            gpu,
            endpoint,
            str(beats),
            str(claims),
        ]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout

    def test_clients_tokens_let_no_host_in(self):
        pool = self.tenants_pool()
        for token in (self.alice, "operator", "", "0" * 64):
            self.assertEqual(self.joined(pool, "evil", token)[0], 401, token)
            self.assertIn(
                "code 16: this host has not joined the pool", self.rogue(pool, token, "evil")
            )
        path = self.store.with_name("token")
        path.write_text("operator\n")
        server = Server(
            "--pool",
            pool.url,
            "--pool-name",
            "evil",
            "--pool-token-file",
            str(path),
            environment={"FARCALL_CACHE_DIR": str(self.store.parent)},
        )
        self.addCleanup(server.stop)
        until(
            lambda: "the join token is wrong, was used up or revoked, or has expired"
            in server.log_text(),
            what="its refusal",
        )
        self.assertEqual(pool.hosts(), {})
        # Only the operator lets hosts in.
        self.assertEqual(pool.call("POST", "/v1/join-tokens", {}, self.as_(self.alice))[0], 403)

    def test_a_join_token_opens_once_and_not_for_ever(self):
        pool = self.tenants_pool()
        token = self.new_token(pool)
        status, credential = self.joined(pool, "one", token)
        self.assertEqual(status, 200)
        self.assertEqual(self.joined(pool, "two", token)[0], 401)
        self.assertEqual(self.joined(pool, "one", token)[0], 401)
        # The token itself is no credential, and the credential no token.
        self.assertIn("code 16", self.rogue(pool, token, "one"))
        self.assertEqual(self.joined(pool, "two", credential)[0], 401)
        self.assertEqual(pool.call("GET", "/v1/claims", headers=self.as_(credential))[0], 401)
        self.assertIn("answered 0", self.rogue(pool, credential, "one"))
        short = self.new_token(pool, expires_s="1")
        time.sleep(2.1)
        self.assertEqual(self.joined(pool, "two", short)[0], 401)
        # All that is known after a restart too.
        unused, addresses = self.new_token(pool), pool.addresses()
        pool.stop()
        pool = self.serve("--token-verifier", str(self.verifiers), token="operator", **addresses)
        self.assertEqual(self.joined(pool, "three", token)[0], 401)
        self.assertEqual(self.joined(pool, "three", unused)[0], 200)
        self.assertIn("answered 0", self.rogue(pool, credential, "one"))
        store = self.store.read_bytes() + self.store.with_name("pool.db-wal").read_bytes()
        for secret in (token, unused, credential):
            self.assertNotIn(secret.encode(), store)

    def test_nobody_takes_a_hosts_name(self):
        pool = self.tenants_pool()
        credential = self.joined(pool, "one", self.new_token(pool))[1]
        other = self.joined(pool, "two", self.new_token(pool))[1]
        self.assertIn("code 16", self.rogue(pool, other, "one"))
        status, why = self.joined(pool, "one", self.new_token(pool))
        self.assertEqual(status, 409, why)
        self.assertIn("has joined before", why)
        self.assertEqual(self.joined(pool, "one", self.new_token(pool, host="two"))[0], 401)
        for name in ("", "x" * 65, "a b", "a\n", "../x"):
            self.assertEqual(self.joined(pool, name, self.new_token(pool))[0], 400, name)
        # Its operator may give the name to a host that was set up anew.
        status, again = self.joined(pool, "one", self.new_token(pool, host="one"))
        self.assertEqual(status, 200, again)
        self.assertIn("code 16", self.rogue(pool, credential, "one"))
        self.assertIn("answered 0", self.rogue(pool, again, "one"))

    def test_a_restarted_host_needs_no_other_token(self):
        pool = self.tenants_pool()
        token = self.store.with_name("join")
        done = subprocess.run(
            [
                FARCALL,
                "pool",
                "join-token",
                "new",
                str(token),
                "--expires",
                "10m",
                "--pool",
                pool.url,
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "FARCALL_TOKEN": "operator"},
        )
        self.assertEqual((done.returncode, token.stat().st_mode & 0o777), (0, 0o600), done.stderr)
        first = self.host(pool, "one", "--pool-token-file", str(token))
        instance = pool.hosts()["one"]["instance"]
        first.stop()
        self.host(pool, "one", "--pool-token-file", str(token))
        until(lambda: pool.hosts()["one"]["instance"] != instance, what="its second start")
        self.assertEqual(pool.hosts()["one"]["state"], "ready")
        kept = list(self.store.parent.glob("pool/*.credential"))
        self.assertEqual([path.stat().st_mode & 0o777 for path in kept], [0o600])

    def test_what_a_host_says_is_shown_as_text(self):
        pool = self.serve()
        self.assertIn("answered", self.rogue(pool, None, "one", gpu=HOSTILE))
        self.assertIn(
            "code 3: report: endpoint", self.rogue(pool, None, "two", endpoint="tcp://x\x1b:1")
        )
        self.assertIn("code 3: report: a host's name", self.rogue(pool, None, "two\x1b[2J"))
        gpu = pool.hosts()["one"]["gpus"][0]["name"]
        self.assertIsNone(CONTROL.search(gpu), gpu)
        shown = subprocess.run(
            [FARCALL, "pool", "list", "--hosts", "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        self.assertIn("GPU", shown)
        self.assertIsNone(CONTROL.search(shown), shown)

    def test_claims_that_a_host_makes_up_are_bounded_and_are_nobodys(self):
        pool = self.tenants_pool()
        credential = self.joined(pool, "one", self.new_token(pool))[1]
        self.assertIn("answered", self.rogue(pool, credential, "one", beats=3, claims=3000))
        self.assertLessEqual(pool.get("/v1/claims")["total"], 4096)
        self.assertEqual(
            pool.call("GET", "/v1/claims", headers=self.as_(self.alice))[1]["total"], 0
        )
        self.assertEqual(pool.call("POST", "/v1/claims", {}, self.as_(self.alice))[0], 201)

    def test_a_lease_is_not_shown_again_after_its_host_has_restarted(self):
        pool = self.serve()
        server = self.host(pool, "one")
        claim = pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")
        path = f"/v1/claims/{claim['id']}"
        lease = pool.post(path + ":connect")["token"]
        fake = FakePool(server.url, lease)
        self.addCleanup(fake.close)
        first = run(fake.endpoint, sys.executable, HERE / "programs/teller.py")
        self.assertEqual(first.process.returncode, 0, first.err)
        server.stop()
        again = self.host(pool, "one", listen=server.url)
        until(lambda: pool.claim(claim["id"])["state"] in ("bound", "idle"), what="its claim")

        def shown(text):
            fake = FakePool(again.url, text)
            self.addCleanup(fake.close)
            client = run(fake.endpoint, sys.executable, HERE / "programs/teller.py")
            return client.process.returncode, "\n".join(client.err)

        until(  # before that its pool is not known there
            lambda: "for another start of this host's server" in shown(lease)[1],
            what="the lease's refusal",
        )

        def fresh():
            return shown(pool.post(path + ":connect")["token"])[0] == 0

        until(fresh, what="a new lease opens")


if __name__ == "__main__":
    unittest.main()
