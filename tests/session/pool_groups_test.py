# SPDX-License-Identifier: Apache-2.0
"""Groups of hosts, the placer fgd and claims with alternatives: by REST, by gRPC's words and by the command line."""

import json
import subprocess
import unittest

from harness import FARCALL, Client, until
from pool_case import MIB, PoolCase

APPLIED = """
projects:
  - name: lab
groups:
  - name: rack
    selector: "zone=a"
    projects: [lab]
    sequencer: drf
    placer: fgd
    max_claims: 4
    max_pending: 9
    oversubscribe: 1.25
hosts:
  - name: one
    labels: {zone: a}
"""


class Groups(PoolCase):
    def cli(self, pool, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *map(str, words), "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_a_group_is_set_shown_used_and_deleted(self):
        pool = self.serve()
        self.host(pool, "one")
        self.cli(pool, "project", "set", "lab")
        made = self.cli(pool, "group", "set", "g", "--hosts", "one", "--projects", "lab")
        self.assertIn("g: 1 host(s), 1 GPU(s), 0 claim(s), 0 wait\n  hosts: one\n", made)
        self.cli(pool, "group", "set", "g", "--sequencer", "drf", "--max-claims", 1)
        told = pool.get("/v1/groups/g")
        self.assertEqual(
            (told["projects"], told["sequencer"], told["max_claims"], told["members"]),
            (["lab"], "drf", 1, ["one"]),
        )
        self.assertEqual(pool.hosts()["one"]["group"], "g")
        asked = self.cli(
            pool, "request", "--mem", "64MiB", "--project", "lab", "--group", "g", "--json"
        )
        first = json.loads(asked)
        self.assertEqual((first["state"], first["group"]), ("bound", "g"))
        second = pool.post("/v1/claims", memory_bytes=str(MIB), project="lab", group="g")
        explained = self.cli(pool, "explain", second["id"])
        self.assertIn("it waits for the limit of group 'g' on claims, 1", explained)
        self.assertIn("  group: g\n", explained)
        self.assertIn("order: drf in group g: project lab", explained)
        queue = self.cli(pool, "queue", "--group", "g")
        self.assertIn("1 claim(s) wait, by drf", queue)
        self.assertRegex(queue, r"g +1 " + second["id"])
        self.assertIn("there is no group 'x'", self.cli(pool, "queue", "--group", "x", code=1))
        # None of its hosts is another group's any more.
        outside = pool.post("/v1/claims", memory_bytes=str(MIB))
        self.assertIn("1 on hosts of other groups", self.cli(pool, "explain", outside["id"]))
        refused = self.cli(pool, "group", "delete", "g", code=1)
        self.assertIn("group 'g' has 2 claim(s) that are not over", refused)
        for claim in (first, second):
            self.cli(pool, "release", claim["id"])
        until(lambda: pool.get("/v1/groups/g").get("claims", 0) == 0, what="its claims' end")
        until(lambda: pool.call("DELETE", "/v1/groups/g")[0] == 200, what="the group's end")
        until(lambda: pool.claim(outside["id"])["state"] == "bound", what="the host's freedom")
        self.assertRegex(
            self.cli(pool, "group", "list"), r"default +1 +1 +1 +0 pool's +pool's +any"
        )

    def test_a_group_lends_memory_more_than_once(self):
        pool = self.serve()
        profile = self.store.with_name("small.profile")
        profile.write_text("memory = 160MiB\n")
        lends = {"device": f"cpu:{profile}"}
        self.host(pool, "one", "--oversubscribe", "2", "--swap-host-mem", "1GiB", **lends)
        self.cli(pool, "group", "set", "default", "--oversubscribe", "1.8")
        self.assertIn("1.8 times its GPUs' memory", self.cli(pool, "group", "show", "default"))
        host = pool.hosts()["one"]
        self.assertEqual(
            (host["oversubscribe"], host["gpus"][0]["lendable_bytes"]), (2, str(288 * MIB))
        )
        claims = [pool.post("/v1/claims", memory_bytes=str(144 * MIB)) for _ in range(3)]
        states = lambda: [pool.claim(claim["id"])["state"] for claim in claims]
        until(lambda: states() == ["bound", "bound", "pending"], what="two of three have a place")
        self.assertIn("0.3 of 0.3 GiB", self.cli(pool, "list", "--hosts"))
        work = [
            Client(
                pool.endpoint,
                "swapped",
                *("work", 100, 12, 50),
                environment={"FARCALL_CLAIM": claim["id"]},
            )
            for claim in claims[:2]
        ]
        for client in work:
            self.addCleanup(client.kill)
        for client in work:
            self.assertEqual((client.wait(), client.out[-1:]), (0, ["done"]), client.err)
        larger = pool.post("/v1/claims", memory_bytes=str(170 * MIB))
        self.assertIn("a larger host joins", self.cli(pool, "explain", larger["id"]))
        for wrong in ("0.5", "much", "17"):
            told = self.cli(pool, "group", "set", "default", "--oversubscribe", wrong, code=2)
            self.assertIn("from 1 to 16", told)
        status, refused = pool.call("PUT", "/v1/groups/default", {"oversubscribe": 0.5})
        self.assertEqual((status, refused["field"]), (400, "oversubscribe"))

    def test_who_may_not_use_a_group_hears_why(self):
        pool = self.serve()
        self.host(pool, "one")
        self.cli(pool, "project", "set", "lab")
        self.cli(pool, "group", "set", "g", "--hosts", "one", "--projects", "lab")
        status, error = pool.call("POST", "/v1/claims", {"group": "g"})
        self.assertEqual(
            (status, error["field"], error["hint"]), (403, "group", "its projects are lab")
        )
        self.assertEqual(error["message"], "group 'g' takes no claims of project 'default'")
        status, error = pool.call("POST", "/v1/claims", {"group": "none"})
        self.assertEqual((status, error["message"]), (400, "there is no group 'none'"))
        planned = self.cli(pool, "plan", "--mem", "1MiB", "--group", "g", code=5)
        self.assertIn(
            "group 'g' to take claims of project 'default'; its projects are lab", planned
        )
        self.assertIn("there is no group 'x'", self.cli(pool, "plan", "--group", "x", code=1))
        wrong = self.cli(pool, "group", "set", "h", "--hosts", "one", code=1)
        self.assertIn("host 'one' is of group 'g' already", wrong)
        wrong = self.cli(pool, "group", "set", "h", code=1)
        self.assertIn("it would have no hosts", wrong)

    def test_groups_are_declared_in_a_file_and_a_new_controller_has_them(self):
        pool = self.serve()
        self.host(pool, "one")
        path = self.store.with_name("pool.yaml")
        path.write_text(APPLIED)
        made = self.cli(pool, "apply", "-f", path)
        self.assertIn("group rack: new\n", made)
        self.assertIn("  placer: none -> fgd\n", made)
        self.assertIn("  oversubscribe: none -> 1.25\n", made)
        self.assertIn("0 of 3 objects changed", self.cli(pool, "apply", "-f", path))
        claim = pool.post(
            "/v1/claims", memory_bytes=str(MIB), project="lab", group="rack", wait_ms="20000"
        )
        self.assertEqual((claim["state"], claim["request"]["placer"]), ("bound", "fgd"))
        path.write_text(APPLIED.replace("placer: fgd", "placer: best"))
        wrong = self.cli(pool, "apply", "-f", path, code=1)
        self.assertIn("group 'rack': placer 'best': pack, spread, fgd, near or topology", wrong)
        addresses = pool.addresses()
        pool.stop()
        pool = self.serve(**addresses)
        told = pool.get("/v1/groups/rack")
        self.assertEqual((told["claims"], told["oversubscribe"]), (1, 1.25))
        until(lambda: pool.hosts()["one"]["state"] == "ready", what="its host")
        self.assertEqual(pool.hosts()["one"]["group"], "rack")

    def test_near_takes_the_zone_with_the_shortest_round_trip(self):
        pool = self.serve()
        for name, zone in (("one", "far"), ("two", "close")):
            self.host(pool, name)
            self.cli(pool, "label", name, "zone=" + zone)
        path = self.store.with_name("zones.yaml")
        path.write_text(
            "groups:\n  - name: default\n    placer: near\n    round_trips:\n"
            "      - {from: home, to: far, time: 12ms}\n"
            "      - {from: home, to: close, time: 300us}\n"
        )
        made = self.cli(pool, "apply", "-f", path)
        self.assertIn("  placer: none -> near\n", made)
        self.assertIn("  round_trip close home: none -> 0.3 ms\n", made)
        self.assertIn("0 of 1 objects changed", self.cli(pool, "apply", "-f", path))
        self.assertEqual(
            pool.get("/v1/groups/default")["round_trips"][0],
            {"from": "home", "to": "far", "us": 12000},
        )
        claim = pool.post(
            "/v1/claims", memory_bytes=str(MIB), labels={"zone": "home"}, wait_ms="20000"
        )
        self.assertEqual((claim["host"], claim["request"]["placer"]), ("two", "near"))
        self.assertIn(
            "  placement: near to zone home: zone close at 0.3 ms\n",
            self.cli(pool, "explain", claim["id"]),
        )
        self.cli(pool, "group", "set", "default", "--round-trips", "home:far=1us,home:close=2s")
        self.assertIn(
            "  round trip home far: 0.001 ms\n", self.cli(pool, "group", "show", "default")
        )
        other = json.loads(
            self.cli(pool, "request", "--mem", "1MiB", "--label", "zone=home", "--json")
        )
        self.assertEqual(other["host"], "one")
        wrong = self.cli(pool, "group", "set", "default", "--round-trips", "home:far=1h", code=2)
        self.assertIn("'home:far=1h': write two zones and a time up to 10s", wrong)
        wrong = self.cli(
            pool, "group", "set", "default", "--round-trips", "home:far=1us,far:home=2us", code=1
        )
        self.assertIn("zones 'far' and 'home' are there twice", wrong)
        path.write_text(path.read_text().replace("300us", "an hour"))
        wrong = self.cli(pool, "apply", "-f", path, code=2)
        self.assertIn("'an hour': write a time up to 10s, as 300us", wrong)

    def test_tflops_become_a_share_of_the_gpu(self):
        pool = self.serve()
        self.host(pool, "one")
        name = pool.hosts()["one"]["gpus"][0]["name"]
        wrong = self.cli(pool, "request", "--mem", "1MiB", "--tflops", "5", code=1)
        self.assertIn("5 TFLOPS: group 'default' has no table of models' TFLOPS", wrong)
        self.cli(pool, "group", "set", "default", "--model-tflops", "A100=312,H 9=0.5")
        shown = self.cli(pool, "group", "show", "default")
        self.assertIn("  TFLOPS of A100: 312\n  TFLOPS of H 9: 0.5\n", shown)
        wrong = self.cli(pool, "request", "--mem", "1MiB", "--tflops", "5", "--model", name, code=1)
        self.assertIn(f"model '{name}' is not in the table of TFLOPS of group 'default'", wrong)
        planned = self.cli(pool, "plan", "--mem", "1MiB", "--tflops", "5", code=5)
        self.assertIn(f"  5 TFLOPS are not known of {name}\n", planned)
        path = self.store.with_name("tflops.yaml")
        path.write_text(f"groups:\n  - name: default\n    model_tflops: {{'{name}': 20}}\n")
        made = self.cli(pool, "apply", "-f", path)
        self.assertIn(f"  tflops {name}: none -> 20 TFLOPS\n", made)
        self.assertEqual(pool.hosts()["one"]["gpus"][0]["tflops"], 20)
        asked = self.cli(pool, "request", "--mem", "1MiB", "--tflops", "5", "--json")
        claim = json.loads(asked)
        self.assertEqual((claim["state"], claim["share_milli"]), ("bound", 250))
        self.assertEqual(claim["request"]["tflops"], 5)
        self.assertIn("  5 TFLOPS (25 %)", self.cli(pool, "list"))
        self.assertIn(
            f"  5 TFLOPS are 25 % of {name} (20 TFLOPS)\n", self.cli(pool, "explain", claim["id"])
        )
        other = json.loads(
            self.cli(
                pool, "request", "--mem", "1MiB", "--tflops", "16", "--or", "mem=1MiB,tflops=4",
                "--json",
            )
        )  # fmt: skip
        self.assertEqual((other["alternative"], other["share_milli"]), (1, 200))
        self.cli(pool, "release", other["id"])
        wrong = self.cli(pool, "request", "--or", "tflops=4,share=5%", code=2)
        self.assertIn("or tflops=40 instead of the share", wrong)
        wrong = self.cli(pool, "set", claim["id"], "--share", "50%", code=1)
        self.assertIn("asks for 5 TFLOPS: its share follows from its GPU", wrong)
        status, error = pool.call("POST", "/v1/claims", {"tflops": 5, "share_milli": 100})
        self.assertEqual((status, error["field"]), (400, "tflops"))
        status, error = pool.call("POST", "/v1/claims", {"tflops": -1})
        self.assertEqual((status, error["message"]), (400, "tflops -1: 0.001 to 100000"))
        wrong = self.cli(pool, "request", "--tflops", "many", code=2)
        self.assertIn("'many': a number from 0.001 to 100000, as 40", wrong)
        wrong = self.cli(pool, "group", "set", "default", "--model-tflops", "A100", code=2)
        self.assertIn("'A100': write a model and its TFLOPS", wrong)
        # A new controller knows the share that the claim has.
        addresses = pool.addresses()
        pool.stop()
        pool = self.serve(**addresses)
        self.assertEqual(pool.claim(claim["id"])["share_milli"], 250)
        until(lambda: pool.hosts()["one"]["state"] == "ready", what="its host")
        until(lambda: pool.hosts()["one"]["gpus"][0]["used_milli"] == 250, what="its claim's share")

    def test_topology_is_asked_for_by_a_claim(self):
        pool = self.serve()
        self.host(pool, "one")
        claim = json.loads(
            self.cli(pool, "request", "--mem", "1MiB", "--placer", "topology", "--json")
        )
        self.assertEqual(claim["request"]["placer"], "topology")
        self.assertIn("  placement: topology: one GPU\n", self.cli(pool, "explain", claim["id"]))
        status, error = pool.call("POST", "/v1/claims", {"placer": "best"})
        self.assertEqual(
            (status, error["message"]),
            (400, "placer 'best': pack, spread, fgd, near or topology"),
        )

    def test_the_first_alternative_that_fits_is_taken(self):
        pool = self.serve()
        self.host(pool, "one")
        asked = json.loads(
            self.cli(
                pool,
                "request",
                "--mem",
                "900GiB",
                "--or",
                "gpus=8,mem=1MiB",
                "--or",
                "mem=64MiB",
                "--json",
            )
        )
        self.assertEqual(
            (asked["state"], asked["alternative"], asked["memory_bytes"]),
            ("bound", 2, str(64 * MIB)),
        )
        self.assertEqual(asked["request"]["memory_bytes"], str(900 << 30))
        self.assertIn("alternative 2", self.cli(pool, "list"))
        used = pool.get("/v1/projects/default")["used"]
        self.assertEqual(used["memory_bytes"], str(64 * MIB))
        planned = self.cli(pool, "plan", "--mem", "900GiB", "--or", "mem=1MiB")
        self.assertIn("it would start now on one, as 0.0GiB", planned)
        self.assertIn("900.0GiB: asks 900.0 GiB", planned)
        whole = pool.post("/v1/claims", memory_bytes=str(900 << 30), alternatives=[{"count": 1}])
        explained = self.cli(pool, "explain", whole["id"])
        self.assertIn("the first of 2 alternatives", explained)
        self.assertRegex(
            explained, r"  GPU: asks a whole GPU: of 1 GPU\(s\), 1 not free for sharing"
        )
        wrong = self.cli(pool, "request", "--or", "gpus=0", code=2)
        self.assertIn("'gpus=0': write gpus=2,mem=40GiB", wrong)

    def test_the_pools_own_placer_may_be_fgd(self):
        pool = self.serve("--placer", "fgd")
        self.host(pool, "one")
        claim = pool.post("/v1/claims", memory_bytes=str(MIB), wait_ms="20000")
        self.assertEqual((claim["state"], claim["request"]["placer"]), ("bound", "fgd"))


if __name__ == "__main__":
    unittest.main()
