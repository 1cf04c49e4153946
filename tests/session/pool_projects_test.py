# SPDX-License-Identifier: Apache-2.0
"""Projects by REST and by the command line."""

import json
import subprocess
import unittest

from harness import FARCALL, until
from pool_case import MIB, PoolCase


class Projects(PoolCase):
    def farcall(self, pool, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *words, "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_projects_are_made_changed_listed_and_deleted(self):
        pool = self.serve()
        status, made = pool.call("PUT", "/v1/projects/research", {"weight": 3})
        self.assertEqual((status, made["name"], made["weight"]), (200, "research", 3))
        body = {"deserved": {"memory_bytes": str(64 * MIB)}}
        status, child = pool.call("PUT", "/v1/projects/research/vision", body)
        self.assertEqual((status, child["deserved"]["memory_bytes"]), (200, str(64 * MIB)))

        stale = {"If-Match": '"99"'}
        status, error = pool.call("PUT", "/v1/projects/research", {"weight": 4}, stale)
        self.assertEqual((status, error["field"]), (409, "If-Match"))
        good = {"If-Match": made["revision"]}
        status, changed = pool.call("PUT", "/v1/projects/research", {"weight": 4}, good)
        self.assertEqual((status, changed["weight"]), (200, 4))

        page = pool.get("/v1/projects?limit=2")
        self.assertEqual([p["name"] for p in page["projects"]], ["default", "research"])
        page = pool.get("/v1/projects?page_token=" + page["next_page_token"])
        self.assertEqual([p["name"] for p in page["projects"]], ["research/vision"])

        self.assertEqual(pool.call("DELETE", "/v1/projects/research")[0], 409)
        self.assertEqual(pool.call("DELETE", "/v1/projects/research/vision")[0], 200)
        self.assertEqual(pool.call("GET", "/v1/projects/research/vision")[0], 404)
        for name in ("a//b", "../x", "a/", "%3D1%2B1", "a%0Ab"):
            status, error = pool.call("PUT", "/v1/projects/" + name, {})
            self.assertIn(status, (400, 404), name)

    def test_the_command_line_sets_what_is_given_and_keeps_the_rest(self):
        pool = self.serve()
        self.farcall(
            pool, "project", "set", "lab", "--weight", "2", "--deserved", "mem=1GiB,gpus=2"
        )
        self.farcall(pool, "project", "set", "lab", "--deserved", "model=H100,gpus=1")
        self.farcall(pool, "project", "set", "lab", "--max-pending", "7")
        lab = json.loads(self.farcall(pool, "project", "list", "--json"))["projects"][1]
        self.assertEqual((lab["weight"], lab["max_pending"]), (2, 7))
        self.assertEqual(lab["deserved"], {"memory_bytes": str(1 << 30), "gpus": "2"})
        self.assertEqual(lab["models"], [{"model": "H100", "deserved": {"gpus": "1"}}])
        self.assertIn("1.0GiB,2 GPU(s)", self.farcall(pool, "project", "list"))
        wrong = self.farcall(pool, "project", "set", "lab", "--limit", "mem=x", code=2)
        self.assertIn("'mem=x': write mem=80GiB", wrong)
        wrong = self.farcall(pool, "project", "set", "none/child", code=1)
        self.assertIn("there is no project 'none' above it (set that one first)", wrong)
        self.farcall(pool, "project", "delete", "lab")

    def test_claims_are_of_a_project_and_a_new_controller_knows_both(self):
        pool = self.serve()
        self.host(pool, "one")
        self.farcall(pool, "project", "set", "lab")
        asked = self.farcall(pool, "request", "--mem", "64MiB", "--project", "lab")
        self.assertIn("project lab", asked)
        status, error = pool.call("POST", "/v1/claims", {"project": "nobody"})
        self.assertEqual((status, error["field"]), (400, "project"))
        pool.stop()
        again = self.serve()
        lab = again.get("/v1/projects/lab")
        self.assertEqual((lab["claims"], lab["used"]["memory_bytes"]), (1, str(64 * MIB)))
        (claim,) = again.get("/v1/claims")["claims"]
        self.assertEqual(claim["project"], "lab")

    def test_what_was_lent_is_reclaimed_and_explain_and_queue_say_so(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", "60", "--sequencer", "fair")
        self.host(pool, "one")
        memory = int(pool.hosts()["one"]["gpus"][0]["memory_bytes"])
        most = str(memory * 7 // 10)
        self.farcall(pool, "project", "set", "owner", "--deserved", f"mem={memory}")
        self.farcall(pool, "project", "set", "guest", "--weight", "3")
        lent = pool.post(
            "/v1/claims", memory_bytes=most, project="guest", preemptible=True, wait_ms="20000"
        )
        self.assertEqual(lent["state"], "bound")
        waits = pool.post("/v1/claims", memory_bytes=most, project="guest")
        owned = pool.post("/v1/claims", memory_bytes=most, project="owner")
        until(lambda: pool.claim(lent["id"])["state"] == "preempting", what="the warning")

        said = self.farcall(pool, "explain", owned["id"])
        self.assertIn("1 claim(s) of projects above their quota leave", said)
        self.assertIn("order: fair: project owner holds 0.0 % of the pool, weight 1", said)
        self.assertIn("below its quota, so before projects that are above", said)
        self.assertIn("leaves for it: " + lent["id"], said)
        self.assertIn(
            "whose project has not got what it deserves", self.farcall(pool, "explain", lent["id"])
        )
        told = self.farcall(pool, "queue")
        self.assertIn("2 claim(s) wait, by fair", told)
        self.assertRegex(told, rf"(?m)^ +1 {owned['id']} +owner .* a place is kept for it$")
        self.assertRegex(told, rf"(?m)^ +2 {waits['id']} +guest .* waits for room$")
        rows = json.loads(self.farcall(pool, "queue", "--json"))["claims"]
        self.assertEqual(
            [(r["place"], r["claim"]["project"]) for r in rows], [(1, "owner"), (2, "guest")]
        )

    def test_above_a_limit_a_claim_waits_with_that_reason(self):
        pool = self.serve()
        self.host(pool, "one")
        self.farcall(pool, "project", "set", "lab", "--limit", "mem=64MiB")
        first = pool.post("/v1/claims", memory_bytes=str(64 * MIB), project="lab", wait_ms="20000")
        second = pool.post("/v1/claims", memory_bytes=str(32 * MIB), project="lab")
        self.assertEqual((first["state"], second["state"]), ("bound", "pending"))
        told = pool.post(f"/v1/claims/{second['id']}:explain")
        self.assertEqual(told["limit"], "the limit of project 'lab' on memory")
        self.assertIn("waits for the limit of project 'lab'", self.farcall(pool, "queue"))
        status, error = pool.call(
            "PATCH", "/v1/claims/" + first["id"], {"memory_bytes": str(128 * MIB)}
        )
        self.assertEqual(status, 409)
        self.assertIn("the limit of project 'lab' on memory", error["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
