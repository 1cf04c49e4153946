# SPDX-License-Identifier: Apache-2.0
"""A pool of real hosts on the CPU device: claims, leases, pool://, a controller that dies, drains, quotas."""

import json
import signal
import subprocess
import sys
import unittest

from fake_pool import FakePool
from harness import FARCALL, HERE, Client, run, until
from pool_case import GIB, MIB, PoolCase


class PoolTest(PoolCase):
    def test_an_unmodified_program_gets_what_it_asked_for_and_gives_it_back(self):
        pool = self.serve()
        self.host(pool, "one")
        client = self.teller(pool, FARCALL_MEM="256MiB", FARCALL_SHARE="25%", FARCALL_VGPU="a run")
        claim = until(
            lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"],
            what="an active claim",
        )[0]
        self.assertEqual(
            (claim["memory_bytes"], claim["request"]["share_milli"], claim["host"]),
            (str(256 * MIB), 250, "one"),
        )
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 0")
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 2")
        # Another process of the run has the same claim, and its memory.
        other = self.teller(pool, FARCALL_MEM="256MiB", FARCALL_SHARE="25%", FARCALL_VGPU="a run")
        self.assertEqual(self.say(other, f"take {100 * MIB}"), "code 2")
        self.assertEqual(pool.get("/v1/claims")["total"], 1)
        until(lambda: pool.claim(claim["id"])["sessions"] == 2, what="two sessions")
        for each in (client, other):
            each.process.stdin.close()
            each.wait()
        until(lambda: pool.claim(claim["id"])["state"] == "idle", what="idle")
        self.assertEqual(pool.call("DELETE", "/v1/claims/" + claim["id"])[0], 200)
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="released")
        self.assertEqual(pool.get("/v1/gpus")["gpus"][0]["used_bytes"], "0")

    def test_a_running_claim_is_changed_to_what_its_host_can_give(self):
        pool = self.serve()
        self.host(pool, "one")
        claim = pool.post(
            "/v1/claims", memory_bytes=str(256 * MIB), share_milli=250, wait_ms="20000"
        )
        path = "/v1/claims/" + claim["id"]
        client = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 0")
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 2")
        status, told = pool.call(
            "PATCH", path, {"memory_bytes": str(512 * MIB), "share_milli": 500, "class": "high"}
        )
        self.assertEqual(
            (
                status,
                told["state"],
                told["changing"],
                told["memory_bytes"],
                told["request"]["share_milli"],
            ),
            (200, "active", False, str(512 * MIB), 500),
            told,
        )
        self.assertEqual(pool.get("/v1/gpus")["gpus"][0]["used_milli"], 500)
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 0")
        # Less than it holds: its host refuses, and nothing has changed.
        status, error = pool.call("PATCH", path, {"memory_bytes": str(300 * MIB)})
        self.assertEqual(
            (status, error["code"], error["hint"]), (409, "refused", "nothing has changed"), error
        )
        self.assertRegex(error["message"], r"its host: memory \d+: it holds \d+ bytes of device 0")
        self.assertEqual(pool.claim(claim["id"])["memory_bytes"], str(512 * MIB))
        self.assertEqual(self.say(client, f"take {16 * MIB}"), "code 0")
        for change, why in (
            ({"memory_bytes": str(1 << 50)}, "bytes for this claim"),
            ({}, "nothing to change"),
            ({"share_milli": 1001}, "0 to 1000"),
            ({"class": "vip"}, "high, normal or low"),
            ({"lifetime_ms": "-1"}, "not negative"),
            ({"shares": 1}, "the body"),
        ):
            status, error = pool.call("PATCH", path, change)
            self.assertIn(status, (400, 409))
            self.assertIn(why, error["message"])
        self.assertEqual(
            pool.call("PATCH", path, {"share_milli": 100}, {"If-Match": '"1"'})[0], 409
        )
        self.assertEqual(pool.call("PATCH", "/v1/claims/none", {"share_milli": 100})[0], 404)
        # A claim that nobody uses, and one whose host has gone on without its controller.
        client.process.stdin.close()
        client.wait()
        until(lambda: pool.claim(claim["id"])["state"] == "idle", what="idle")
        done = subprocess.run(
            [
                FARCALL,
                "pool",
                "set",
                claim["id"],
                "--mem",
                "64MiB",
                "--share",
                "0%",
                "--pool",
                pool.url,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(
            (pool.claim(claim["id"])["memory_bytes"], pool.claim(claim["id"])["changing"]),
            (str(64 * MIB), False),
        )
        again = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(self.say(again, f"take {100 * MIB}"), "code 2")

    def test_a_claim_has_a_network_budget(self):
        pool = self.serve()
        control = self.store.with_name("one.sock")
        self.host(pool, "one", "--max-net", "100MB/s", "--control", str(control))

        def rate():
            told = subprocess.run(
                [FARCALL, "ps", "--json", "--control", control],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            return [int(vgpu["net_bytes_per_s"]) for vgpu in json.loads(told.stdout)["vgpus"]]

        # A run's own, by pool://.
        client = self.teller(pool, FARCALL_MEM="64MiB", FARCALL_NET="20MB/s", FARCALL_VGPU="a run")
        self.assertEqual(rate(), [20_000_000])
        (claim,) = pool.get("/v1/claims")["claims"]
        self.assertEqual(claim["request"]["net_bytes_per_s"], "20000000")
        status, told = pool.call(
            "PATCH", "/v1/claims/" + claim["id"], {"net_bytes_per_s": "50000000"}
        )
        self.assertEqual((status, told["changing"]), (200, False), told)
        self.assertEqual(rate(), [50_000_000])

        def pool_set(*flags):
            return subprocess.run(
                [FARCALL, "pool", "set", claim["id"], *flags, "--pool", pool.url],
                capture_output=True,
                text=True,
                timeout=60,
            )

        refused = pool_set("--net", "1GB/s")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("network 1000MB/s: one allows 100MB/s", refused.stderr)
        self.assertEqual(rate(), [50_000_000])
        self.assertIn("write 100MB/s", pool_set("--net", "fast").stderr)
        done = pool_set("--net", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rate(), [100_000_000], "what its host allows")
        client.process.stdin.close()
        client.wait()
        status, error = pool.call("POST", "/v1/claims", {"net_bytes_per_s": "99999"})
        self.assertEqual((status, error["field"]), (400, "net_bytes_per_s"), error)
        # More than any host allows: a claim waits for one that does, a program is told at once.
        asked = subprocess.run(
            [
                FARCALL,
                "pool",
                "request",
                "--mem",
                "64MiB",
                "--net",
                "200MB/s",
                "--keep",
                "--pool",
                pool.url,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertIn(
            "1 on hosts that allow less of the network; none could ever take it", asked.stderr
        )
        never = run(
            pool.endpoint,
            sys.executable,
            HERE / "programs/teller.py",
            environment={"FARCALL_NET": "200MB/s"},
        )
        self.assertIn("allow less of the network", "\n".join(never.err))
        self.host(pool, "two", "--max-net", "1GB/s")
        until(
            lambda: pool.claim(asked.stdout.split()[0])["host"] == "two",
            what="a host that allows it",
        )

    def test_releasing_a_claim_ends_its_sessions_with_the_cause(self):
        pool = self.serve()
        host = self.host(pool, "one")
        claim = pool.post("/v1/claims", memory_bytes=str(256 * MIB), wait_ms="20000")
        self.assertEqual(claim["state"], "bound")
        client = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(len(host.workers()), 2)  # its agent is a child too
        pool.call("DELETE", "/v1/claims/" + claim["id"])
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="released")
        self.assertEqual(len(host.workers()), 1)
        self.assertNotEqual(self.say(client, "take 1048576"), "code 0")
        self.assertIn("the pool has released claim " + claim["id"], "\n".join(client.err))

    def test_sessions_outlive_a_killed_controller_and_its_follower_knows_them(self):
        pool = self.serve()
        host = self.host(pool, "one")
        client = self.teller(pool, FARCALL_MEM="256MiB")
        workers = host.workers()
        addresses = pool.addresses()
        pool.stop(signal.SIGKILL)
        self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")
        again = self.serve(**addresses)
        claim = until(
            lambda: [c for c in again.get("/v1/claims")["claims"] if c["sessions"] == 1],
            what="its session",
        )[0]
        self.assertEqual(claim["state"], "active")
        self.assertGreater(int(again.get("/v1/pool")["term"]), 1)
        self.assertEqual(host.workers(), workers)
        self.assertEqual(self.say(client, f"take {20 * MIB}"), "code 0")
        until(lambda: again.hosts()["one"]["state"] == "ready", what="ready")
        self.assertEqual(
            again.post("/v1/claims", memory_bytes=str(256 * MIB), wait_ms="20000")["state"], "bound"
        )

    def test_a_second_controller_on_the_same_store_fences_the_first(self):
        first = self.serve()
        self.host(first, "one")
        second = self.serve()
        self.assertEqual(first.process.wait(timeout=60), 3)
        self.assertIn(
            "another controller has taken the store over (term 2, this one's is 1)",
            first.log_text(),
        )
        self.assertEqual(second.get("/v1/pool")["term"], "2")

    def test_leases_open_one_session_at_their_host_in_their_epoch(self):
        pool = self.serve()
        one = self.host(pool, "one")
        two = self.host(pool, "two")
        claim = pool.post(
            "/v1/claims", memory_bytes=str(64 * MIB), host="one", max_sessions=1, wait_ms="20000"
        )
        path = f"/v1/claims/{claim['id']}:connect"
        lease = pool.post(path)
        self.assertEqual((claim["host"], lease["endpoints"]), ("one", [one.url]))

        def shown(server, text, **options):
            fake = FakePool(server.url, text)
            self.addCleanup(fake.close)
            client = Client(fake.endpoint, sys.executable, HERE / "programs/teller.py", **options)
            self.addCleanup(client.kill)
            return client

        def refused(server, text):
            client = shown(server, text)
            client.wait()
            return "\n".join(client.err)

        direct = run(one.url, sys.executable, HERE / "programs/teller.py")
        self.assertIn("this server belongs to a pool", "\n".join(direct.err))
        forged = (
            lease["token"][:-8] + ("A" if lease["token"][-8] != "A" else "B") + lease["token"][-7:]
        )
        self.assertIn("is not signed by this host's pool", refused(one, forged))
        self.assertIn("is no v4.public token", refused(one, "v4.local.x"))
        self.assertIn("is for host 'one', this is 'two'", refused(two, lease["token"]))
        holder = shown(one, lease["token"], stdin=subprocess.PIPE)
        holder.wait_line("ready")
        self.assertIn("has been shown before", refused(one, lease["token"]))
        self.assertIn("all its 1 seat(s) are taken", refused(one, pool.post(path)["token"]))
        holder.process.stdin.close()
        holder.wait()
        until(lambda: pool.claim(claim["id"])["state"] == "idle", what="idle")
        old = pool.post(path)["token"]
        # Moved and come back: its epoch is another.
        pool.post("/v1/hosts/one:drain")
        until(lambda: pool.claim(claim["id"])["state"] == "pending", what="pending")
        pool.post("/v1/hosts/one:uncordon")
        until(lambda: pool.claim(claim["id"])["state"] == "bound", what="bound")
        self.assertIn("the lease is of epoch 1, the claim's is 2", refused(one, old))
        pool.call("DELETE", "/v1/claims/" + claim["id"])
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="released")
        self.assertIn("this host does not hold it", refused(one, old))

    def test_claims_wait_their_turn_and_are_explained(self):
        pool = self.serve()
        self.host(pool, "one")
        total = int(pool.get("/v1/gpus")["gpus"][0]["memory_bytes"])
        first = pool.post("/v1/claims", memory_bytes=str(total - 64 * MIB), wait_ms="20000")
        large = pool.post("/v1/claims", memory_bytes=str(512 * MIB))
        small = pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")
        self.assertEqual(
            (first["state"], pool.claim(large["id"])["state"], small["state"]),
            ("bound", "pending", "bound"),
        )
        told = pool.post(f"/v1/claims/{large['id']}:explain")
        self.assertEqual(
            (told["place_in_queue"], told["removed"], told["could_ever_fit"]),
            (1, {"memory": 1}, True),
        )
        never = run(
            pool.endpoint,
            sys.executable,
            HERE / "programs/teller.py",
            environment={"FARCALL_MEM": "4TiB"},
        )
        self.assertIn("none could ever take it", "\n".join(never.err))
        pool.call("DELETE", "/v1/claims/" + first["id"])
        until(lambda: pool.claim(large["id"])["state"] == "bound", what="the large one's turn")

    def test_rest_says_what_is_wrong(self):
        pool = self.serve(token="secret")
        self.assertEqual(
            pool.call("GET", "/v1/claims", headers={"Authorization": "Bearer wrong"})[0], 401
        )
        self.assertEqual(
            pool.call("POST", "/v1/claims", {"share_milli": 2000}),
            (
                400,
                {
                    "code": "invalid",
                    "message": "share 2000: 0 to 1000 thousandths of a GPU",
                    "field": "share_milli",
                    "hint": "",
                },
            ),
        )
        status, error = pool.call("POST", "/v1/claims", {"shares": 1})
        self.assertEqual((status, error["field"]), (400, "body"))
        self.assertEqual(pool.call("GET", "/v1/claims/none")[0], 404)
        self.assertEqual(pool.call("GET", "/nowhere")[1]["code"], "not_found")
        key = {"Idempotency-Key": "once"}
        first = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, key)[1]
        self.assertEqual(
            pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, key)[1]["id"], first["id"]
        )
        self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "2"}, key)[0], 409)
        self.assertEqual(
            pool.call("DELETE", "/v1/claims/" + first["id"], headers={"If-Match": '"999"'})[0], 409
        )
        self.assertEqual(
            set(pool.get("/openapi.json")["paths"]) & {"/v1/claims", "/v1/hosts/{id}:drain"},
            {"/v1/claims", "/v1/hosts/{id}:drain"},
        )
        refused = run(pool.endpoint, sys.executable, HERE / "programs/teller.py", token="wrong")
        self.assertIn("the token is wrong", "\n".join(refused.err))

    def test_draining_closes_a_host_and_lets_its_sessions_end(self):
        pool = self.serve("--placer", "spread")
        self.host(pool, "one")
        self.host(pool, "two")
        client = self.teller(pool, FARCALL_MEM="64MiB")
        claim = until(
            lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"],
            what="active",
        )[0]
        busy, other = claim["host"], {"one": "two", "two": "one"}[claim["host"]]
        self.assertEqual(pool.post(f"/v1/hosts/{busy}:drain")["state"], "draining")
        for _ in range(3):
            self.assertEqual(
                pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")["host"], other
            )
        self.assertEqual(self.say(client, "take 1048576"), "code 0")
        pool.call("DELETE", "/v1/claims/" + claim["id"])
        until(lambda: pool.hosts()[busy]["state"] == "drained", what="drained")
        self.assertEqual(pool.post(f"/v1/hosts/{busy}:uncordon")["state"], "ready")

    def test_a_claim_sees_its_devices_only(self):
        pool = self.serve()
        self.host(pool, "one", device="dry", environment={"FARCALL_DRY_DEVICES": "3"})
        program = HERE / "programs/devices.py"
        gpus = pool.get("/v1/gpus")["gpus"]
        uuids = [gpu["uuid"] for gpu in gpus]
        self.assertEqual([gpu["nvlink_group"] for gpu in gpus], [0, 0, 0])
        taken = pool.post("/v1/claims", memory_bytes="0", wait_ms="20000")
        self.assertEqual(taken["devices"], [0])
        two = pool.post("/v1/claims", memory_bytes=str(GIB), count=2, wait_ms="20000")
        self.assertEqual(two["devices"], [1, 2])
        client = run(
            pool.endpoint, sys.executable, program, environment={"FARCALL_CLAIM": two["id"]}
        )
        seen = json.loads(client.out[-1])
        self.assertEqual(
            [uuid.replace("-", "") for uuid in seen["uuids"]],
            [uuid[4:].replace("-", "") for uuid in uuids[1:]],
        )
        self.assertEqual((seen["access"], seen["atomics"]), ([1], [1]))

    def test_two_programs_share_by_25_and_75_on_two_hosts(self):
        pool = self.serve("--placer", "spread")
        hosts = {name: self.host(pool, name) for name in ("one", "two")}
        clients = [
            self.teller(pool, FARCALL_MEM=mem, FARCALL_SHARE=share)
            for mem, share in (("256MiB", "25%"), ("512MiB", "75%"))
        ]
        claims = until(
            lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"][1:]
            and pool.get("/v1/claims")["claims"],
            what="two active claims",
        )
        self.assertEqual(
            sorted((c["request"]["share_milli"], c["memory_bytes"]) for c in claims),
            [(250, str(256 * MIB)), (750, str(512 * MIB))],
        )
        self.assertEqual({c["host"] for c in claims}, set(hosts))
        for client, bytes in zip(clients, (200 * MIB, 400 * MIB)):
            self.assertEqual(self.say(client, f"take {bytes}"), "code 0")


if __name__ == "__main__":
    unittest.main()
