# SPDX-License-Identifier: Apache-2.0
"""A pool of real hosts on the CPU device: claims, leases, pool://, a controller that dies, drains, quotas."""
import json
import os
import re
import signal
import subprocess
import sys
import unittest
import urllib.request

from fake_pool import FakePool
from harness import FARCALL, HERE, Client, Server, run, until
from pool_case import GIB, MIB, PoolCase


class PoolTest(PoolCase):
    def test_an_unmodified_program_gets_what_it_asked_for_and_gives_it_back(self):
        pool = self.serve()
        self.host(pool, "one")
        client = self.teller(pool, FARCALL_MEM="256MiB", FARCALL_SHARE="25%", FARCALL_VGPU="a run")
        claim = until(lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"], what="an active claim")[0]
        self.assertEqual((claim["memory_bytes"], claim["request"]["share_milli"], claim["host"]), (str(256 * MIB), 250, "one"))
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
        claim = pool.post("/v1/claims", memory_bytes=str(256 * MIB), share_milli=250, wait_ms="20000")
        path = "/v1/claims/" + claim["id"]
        client = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 0")
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 2")
        status, told = pool.call("PATCH", path, {"memory_bytes": str(512 * MIB), "share_milli": 500, "class": "high"})
        self.assertEqual((status, told["state"], told["changing"], told["memory_bytes"], told["request"]["share_milli"]),
                         (200, "active", False, str(512 * MIB), 500), told)
        self.assertEqual(pool.get("/v1/gpus")["gpus"][0]["used_milli"], 500)
        self.assertEqual(self.say(client, f"take {200 * MIB}"), "code 0")
        # Less than it holds: its host refuses, and nothing has changed.
        status, error = pool.call("PATCH", path, {"memory_bytes": str(300 * MIB)})
        self.assertEqual((status, error["code"], error["hint"]), (409, "refused", "nothing has changed"), error)
        self.assertRegex(error["message"], r"its host: memory \d+: it holds \d+ bytes of device 0")
        self.assertEqual(pool.claim(claim["id"])["memory_bytes"], str(512 * MIB))
        self.assertEqual(self.say(client, f"take {16 * MIB}"), "code 0")
        for change, why in (({"memory_bytes": str(1 << 50)}, "bytes for this claim"), ({}, "nothing to change"), ({"share_milli": 1001}, "0 to 1000"),
                            ({"class": "vip"}, "high, normal or low"), ({"lifetime_ms": "-1"}, "not negative"), ({"shares": 1}, "the body")):
            status, error = pool.call("PATCH", path, change)
            self.assertIn(status, (400, 409))
            self.assertIn(why, error["message"])
        self.assertEqual(pool.call("PATCH", path, {"share_milli": 100}, {"If-Match": '"1"'})[0], 409)
        self.assertEqual(pool.call("PATCH", "/v1/claims/none", {"share_milli": 100})[0], 404)
        # A claim that nobody uses, and one whose host has gone on without its controller.
        client.process.stdin.close()
        client.wait()
        until(lambda: pool.claim(claim["id"])["state"] == "idle", what="idle")
        done = subprocess.run([FARCALL, "pool", "set", claim["id"], "--mem", "64MiB", "--share", "0%", "--pool", pool.url], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((pool.claim(claim["id"])["memory_bytes"], pool.claim(claim["id"])["changing"]), (str(64 * MIB), False))
        again = self.teller(pool, FARCALL_CLAIM=claim["id"])
        self.assertEqual(self.say(again, f"take {100 * MIB}"), "code 2")

    def test_a_claim_has_a_network_budget(self):
        pool = self.serve()
        control = self.store.with_name("one.sock")
        self.host(pool, "one", "--max-net", "100MB/s", "--control", str(control))

        def rate():
            told = subprocess.run([FARCALL, "ps", "--json", "--control", control], capture_output=True, text=True, timeout=60, check=True)
            return [int(vgpu["net_bytes_per_s"]) for vgpu in json.loads(told.stdout)["vgpus"]]
        # A run's own, by pool://.
        client = self.teller(pool, FARCALL_MEM="64MiB", FARCALL_NET="20MB/s", FARCALL_VGPU="a run")
        self.assertEqual(rate(), [20_000_000])
        claim, = pool.get("/v1/claims")["claims"]
        self.assertEqual(claim["request"]["net_bytes_per_s"], "20000000")
        status, told = pool.call("PATCH", "/v1/claims/" + claim["id"], {"net_bytes_per_s": "50000000"})
        self.assertEqual((status, told["changing"]), (200, False), told)
        self.assertEqual(rate(), [50_000_000])

        def pool_set(*flags):
            return subprocess.run([FARCALL, "pool", "set", claim["id"], *flags, "--pool", pool.url], capture_output=True, text=True, timeout=60)
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
        asked = subprocess.run([FARCALL, "pool", "request", "--mem", "64MiB", "--net", "200MB/s", "--keep", "--pool", pool.url],
                               capture_output=True, text=True, timeout=60)
        self.assertIn("1 on hosts that allow less of the network; none could ever take it", asked.stderr)
        never = run(pool.endpoint, sys.executable, HERE / "programs/teller.py", environment={"FARCALL_NET": "200MB/s"})
        self.assertIn("allow less of the network", "\n".join(never.err))
        self.host(pool, "two", "--max-net", "1GB/s")
        until(lambda: pool.claim(asked.stdout.split()[0])["host"] == "two", what="a host that allows it")

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
        claim = until(lambda: [c for c in again.get("/v1/claims")["claims"] if c["sessions"] == 1], what="its session")[0]
        self.assertEqual(claim["state"], "active")
        self.assertGreater(int(again.get("/v1/pool")["term"]), 1)
        self.assertEqual(host.workers(), workers)
        self.assertEqual(self.say(client, f"take {20 * MIB}"), "code 0")
        until(lambda: again.hosts()["one"]["state"] == "ready", what="ready")
        self.assertEqual(again.post("/v1/claims", memory_bytes=str(256 * MIB), wait_ms="20000")["state"], "bound")

    def test_a_second_controller_on_the_same_store_fences_the_first(self):
        first = self.serve()
        self.host(first, "one")
        second = self.serve()
        self.assertEqual(first.process.wait(timeout=20), 3)
        self.assertIn("another controller has taken the store over (term 2, this one's is 1)", first.log_text())
        self.assertEqual(second.get("/v1/pool")["term"], "2")

    def test_leases_open_one_session_at_their_host_in_their_epoch(self):
        pool = self.serve()
        one = self.host(pool, "one")
        two = self.host(pool, "two")
        claim = pool.post("/v1/claims", memory_bytes=str(64 * MIB), host="one", max_sessions=1, wait_ms="20000")
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
        forged = lease["token"][:-8] + ("A" if lease["token"][-8] != "A" else "B") + lease["token"][-7:]
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
        self.assertEqual((first["state"], pool.claim(large["id"])["state"], small["state"]), ("bound", "pending", "bound"))
        told = pool.post(f"/v1/claims/{large['id']}:explain")
        self.assertEqual((told["place_in_queue"], told["removed"], told["could_ever_fit"]), (1, {"memory": 1}, True))
        never = run(pool.endpoint, sys.executable, HERE / "programs/teller.py", environment={"FARCALL_MEM": "4TiB"})
        self.assertIn("none could ever take it", "\n".join(never.err))
        pool.call("DELETE", "/v1/claims/" + first["id"])
        until(lambda: pool.claim(large["id"])["state"] == "bound", what="the large one's turn")

    def test_rest_says_what_is_wrong(self):
        pool = self.serve(token="secret")
        self.assertEqual(pool.call("GET", "/v1/claims", headers={"Authorization": "Bearer wrong"})[0], 401)
        self.assertEqual(pool.call("POST", "/v1/claims", {"share_milli": 2000}),
                         (400, {"code": "invalid", "message": "share 2000: 0 to 1000 thousandths of a GPU", "field": "share_milli", "hint": ""}))
        status, error = pool.call("POST", "/v1/claims", {"shares": 1})
        self.assertEqual((status, error["field"]), (400, "body"))
        self.assertEqual(pool.call("GET", "/v1/claims/none")[0], 404)
        self.assertEqual(pool.call("GET", "/nowhere")[1]["code"], "not_found")
        key = {"Idempotency-Key": "once"}
        first = pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, key)[1]
        self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "1"}, key)[1]["id"], first["id"])
        self.assertEqual(pool.call("POST", "/v1/claims", {"memory_bytes": "2"}, key)[0], 409)
        self.assertEqual(pool.call("DELETE", "/v1/claims/" + first["id"], headers={"If-Match": '"999"'})[0], 409)
        self.assertEqual(set(pool.get("/openapi.json")["paths"]) & {"/v1/claims", "/v1/hosts/{id}:drain"}, {"/v1/claims", "/v1/hosts/{id}:drain"})
        refused = run(pool.endpoint, sys.executable, HERE / "programs/teller.py", token="wrong")
        self.assertIn("the token is wrong", "\n".join(refused.err))

    def test_draining_closes_a_host_and_lets_its_sessions_end(self):
        pool = self.serve("--placer", "spread")
        self.host(pool, "one")
        self.host(pool, "two")
        client = self.teller(pool, FARCALL_MEM="64MiB")
        claim = until(lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"], what="active")[0]
        busy, other = claim["host"], {"one": "two", "two": "one"}[claim["host"]]
        self.assertEqual(pool.post(f"/v1/hosts/{busy}:drain")["state"], "draining")
        for _ in range(3):
            self.assertEqual(pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")["host"], other)
        self.assertEqual(self.say(client, "take 1048576"), "code 0")
        pool.call("DELETE", "/v1/claims/" + claim["id"])
        until(lambda: pool.hosts()[busy]["state"] == "drained", what="drained")
        self.assertEqual(pool.post(f"/v1/hosts/{busy}:uncordon")["state"], "ready")

    def test_a_claim_sees_its_devices_only(self):
        pool = self.serve()
        self.host(pool, "one", device="dry", environment={"FARCALL_DRY_DEVICES": "3"})
        program = HERE / "programs/devices.py"
        uuids = [gpu["uuid"] for gpu in pool.get("/v1/gpus")["gpus"]]
        taken = pool.post("/v1/claims", memory_bytes="0", wait_ms="20000")
        self.assertEqual(taken["devices"], [0])
        two = pool.post("/v1/claims", memory_bytes=str(GIB), count=2, wait_ms="20000")
        self.assertEqual(two["devices"], [1, 2])
        client = run(pool.endpoint, sys.executable, program, environment={"FARCALL_CLAIM": two["id"]})
        seen = json.loads(client.out[-1])
        self.assertEqual([uuid.replace("-", "") for uuid in seen["uuids"]], [uuid[4:].replace("-", "") for uuid in uuids[1:]])

    def test_two_programs_share_by_25_and_75_on_two_hosts(self):
        pool = self.serve("--placer", "spread")
        hosts = {name: self.host(pool, name) for name in ("one", "two")}
        clients = [self.teller(pool, FARCALL_MEM=mem, FARCALL_SHARE=share) for mem, share in (("256MiB", "25%"), ("512MiB", "75%"))]
        claims = until(lambda: [c for c in pool.get("/v1/claims")["claims"] if c["state"] == "active"][1:] and pool.get("/v1/claims")["claims"],
                       what="two active claims")
        self.assertEqual(sorted((c["request"]["share_milli"], c["memory_bytes"]) for c in claims), [(250, str(256 * MIB)), (750, str(512 * MIB))])
        self.assertEqual({c["host"] for c in claims}, set(hosts))
        for client, bytes in zip(clients, (200 * MIB, 400 * MIB)):
            self.assertEqual(self.say(client, f"take {bytes}"), "code 0")

    def test_the_command_line_requests_lists_explains_and_releases(self):
        pool = self.serve()
        self.host(pool, "one")

        def farcall(*command):
            done = subprocess.run([FARCALL, "pool", *command, "--pool", pool.url], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        claim = json.loads(farcall("request", "--mem", "64MiB", "--share", "30%", "--json"))
        self.assertEqual((claim["state"], claim["request"]["share_milli"]), ("bound", 300))
        self.assertIn(f"{claim['id']}  bound", farcall("list"))
        self.assertIn("one  ready", farcall("list", "--hosts"))
        self.assertEqual(farcall("explain", claim["id"]), "bound: on one\n")
        self.assertIn(claim["id"], farcall("release", claim["id"]))
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="released")
        self.assertIn("drain", farcall("drain", "one"))

    def test_a_request_without_a_place_is_released(self):
        pool = self.serve()
        self.host(pool, "one")

        def request(*flags):
            return subprocess.run([FARCALL, "pool", "request", *flags, "--pool", pool.url], capture_output=True, text=True, timeout=60)
        # What no GPU could hold is told at once: nobody waits the 60 s that it might have.
        never = request("--mem", "100TiB")
        self.assertEqual(never.returncode, 5, never.stderr)
        self.assertRegex(never.stderr, r"^farcall pool request: no place: .*none could ever take it.* is released \(--keep ")
        self.assertEqual(pool.claim(never.stdout.split()[0])["state"], "released")
        whole = request("--share", "100%")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        late = request("--share", "50%", "--wait", "0.2")
        self.assertEqual(late.returncode, 5, late.stderr)
        self.assertEqual(pool.claim(late.stdout.split()[0])["state"], "released")
        kept = request("--share", "50%", "--wait", "0.2", "--keep")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(pool.claim(kept.stdout.split()[0])["state"], "pending")

    def test_devices_of_a_pool_are_listed(self):
        pool = self.serve()
        self.host(pool, "one")
        done = subprocess.run([FARCALL, "devices", "--endpoint", pool.endpoint], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^HOST +DEVICE")
        self.assertRegex(done.stdout, r"(?m)^one +0 +Farcall CPU Device")

    def watch(self, pool, path, last_id=None):
        """Events as (kind, id, data), as they come."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        answer = urllib.request.urlopen(urllib.request.Request(pool.url + path, headers=headers), timeout=60)
        self.addCleanup(answer.close)
        event = {}
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name in ("event", "id", "data"):
                event[name] = value
            elif not name and event:
                yield event["event"], event.get("id"), json.loads(event["data"])
                event = {}

    def test_claims_and_hosts_are_watched_without_a_gap(self):
        pool = self.serve()
        self.host(pool, "one")
        first = pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")
        events = self.watch(pool, "/v1/claims?watch=1")
        self.assertEqual(next(events)[0], "all")
        kind, _, claim = next(events)
        self.assertEqual((kind, claim["id"], claim["state"]), ("claim", first["id"], "bound"))
        self.assertEqual(next(events)[0], "synced")
        second = pool.post("/v1/claims", memory_bytes=str(64 * MIB), wait_ms="20000")
        seen = []
        while not seen or seen[-1][2]["state"] != "bound":
            seen.append(next(events))
        self.assertEqual({(kind, claim["id"]) for kind, _, claim in seen}, {("claim", second["id"])})
        self.assertEqual(seen[0][2]["state"], "reserved")
        pool.call("PATCH", "/v1/claims/" + second["id"], {"share_milli": 300})
        later = self.watch(pool, "/v1/claims?watch=1&name=" + second["id"], seen[-1][1])
        kind, _, claim = next(later)  # nothing of what is known already
        self.assertEqual((kind, claim["id"], claim["changing"]), ("claim", second["id"], True))
        hosts = self.watch(pool, "/v1/hosts?watch=1")
        self.assertEqual([next(hosts)[0] for _ in range(3)], ["all", "host", "synced"])
        pool.call("DELETE", "/v1/claims/" + first["id"])
        kind, _, host = next(hosts)
        while host["gpus"][0]["claims"] != 1:
            kind, _, host = next(hosts)
        self.assertEqual((kind, host["name"], host["gpus"][0]["used_bytes"]), ("host", "one", str(64 * MIB)))

    def test_ps_and_top_show_what_runs_on_all_hosts(self):
        pool = self.serve("--placer", "spread", token="secret")
        environment = {"FARCALL_TOKEN": "secret"}
        for name in ("one", "two"):
            self.host(pool, name, "--pool-token-file", self.join_token(pool))
        clients = [self.teller(pool, FARCALL_MEM="64MiB", FARCALL_SHARE=share, FARCALL_TOKEN="secret") for share in ("25%", "75%")]

        def farcall(*command, **with_environment):
            return subprocess.run([FARCALL, *command, "--endpoint", pool.endpoint], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, **environment, **with_environment})

        def sessions():
            done = farcall("ps", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            hosts = json.loads(done.stdout)["hosts"]
            found = {host["host"]: [session["pid"] for vgpu in host["status"]["vgpus"] for session in vgpu["sessions"]] for host in hosts}
            return found if all(found.values()) else None
        found = until(sessions, what="both sessions")
        self.assertEqual((set(found), sorted(sum(found.values(), []))), ({"one", "two"}, sorted(client.process.pid for client in clients)))
        shown = farcall("ps").stdout
        self.assertRegex(shown, r"^HOST +SESSION +JOB +USER +VGPU")
        for name in ("one", "two"):
            self.assertRegex(shown, rf"(?m)^{name} +\d+ .* c-")
        top = farcall("top", "--views", "2", "--interval", "0.2")
        self.assertEqual((top.returncode, top.stdout.count("AS OF")), (0, 2), top.stderr)
        self.assertRegex(top.stdout, r"(?m)^(one|two) .* c-\S+ +0 .* 75% .* normal ")
        self.assertIn("the token is wrong", farcall("ps", FARCALL_TOKEN="wrong").stderr)
        nobody = subprocess.run([FARCALL, "ps", "--endpoint", "pool://127.0.0.1:1"], capture_output=True, text=True, timeout=60)
        self.assertEqual((nobody.returncode, len(nobody.stderr.splitlines())), (1, 1), nobody.stderr)

    def test_dev_is_a_pool_in_one_command(self):
        process = subprocess.Popen([FARCALL, "pool", "dev"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            endpoint = re.search(r"pool on (pool://\S+),", process.stdout.readline()).group(1)
            client = run(endpoint, sys.executable, HERE / "programs/teller.py")
            self.assertEqual((client.process.returncode, client.out), (0, ["ready"]))
        finally:
            process.terminate()
            self.assertEqual(process.wait(timeout=20), 0)
            process.stdout.close()


if __name__ == "__main__":
    unittest.main()
