# SPDX-License-Identifier: Apache-2.0
"""Labels, selectors and configuration files."""

import json
import pathlib
import subprocess
import unittest

from harness import FARCALL
from pool_case import MIB, PoolCase

TEAM = pathlib.Path(__file__).parents[2] / "examples/pool/team.yaml"


class Apply(PoolCase):
    def farcall(self, pool, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *map(str, words), "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def write(self, text):
        path = self.store.with_name("pool.yaml")
        path.write_text(text)
        return path

    def test_the_example_is_applied_once_and_changes_nothing_the_second_time(self):
        pool = self.serve()
        wrong = self.farcall(pool, "apply", "-f", TEAM, code=1)
        self.assertIn("host 'dev': it has not joined the pool", wrong)
        self.assertEqual(len(pool.get("/v1/projects")["projects"]), 1)
        self.host(pool, "dev")
        dry = self.farcall(pool, "apply", "-f", TEAM, "--dry-run")
        self.assertIn("10 of 10 objects would change\n", dry)
        self.assertEqual(len(pool.get("/v1/projects")["projects"]), 1)
        made = self.farcall(pool, "apply", "-f", TEAM)
        self.assertIn(
            "project students: new\n  limit.memory_bytes: none -> 8589934592\n"
            "  limit.share_milli: none -> 500\n",
            made,
        )
        self.assertIn("10 of 10 objects changed\n", made)
        self.assertIn("0 of 10 objects changed\n", self.farcall(pool, "apply", "-f", TEAM))
        self.assertEqual(
            [user["name"] for user in pool.get("/v1/users")["users"]],
            ["alice", "ben", "chen", "dana", "emil", "inference-server"],
        )
        self.assertEqual(pool.hosts()["dev"]["labels"], {"zone": "desk", "spot": ""})
        pool.stop()
        again = self.serve()  # it is stored
        self.assertIn("0 of 10 objects changed\n", self.farcall(again, "apply", "-f", TEAM))

    def test_a_claim_goes_where_its_selector_lets_it(self):
        pool = self.serve()
        self.host(pool, "one")
        self.host(pool, "two")
        self.assertEqual(self.farcall(pool, "label", "one", "zone=a"), "one: zone=a\n")
        self.assertEqual(self.farcall(pool, "label", "two", "zone=a", "spot"), "two: spot zone=a\n")
        words = ("--mem", "64MiB", "--selector", "zone=a, spot", "--label", "team=vision")
        claim = json.loads(self.farcall(pool, "request", *words, "--json"))
        self.assertEqual((claim["host"], claim["state"]), ("two", "bound"))
        self.assertEqual(claim["request"]["labels"], {"team": "vision"})
        waits = pool.post("/v1/claims", memory_bytes=str(64 * MIB), selector="zone in (b, c)")
        said = self.farcall(pool, "explain", waits["id"])
        self.assertIn("2 on hosts that its selector leaves out", said)
        self.assertEqual(self.farcall(pool, "label", "one", "zone-", "disk=ssd"), "one: disk=ssd\n")
        wrong = self.farcall(pool, "request", "--selector", "zone in a", code=2)
        self.assertIn("write zone=a, !spot, model in (H100,A100)", wrong)
        status, error = pool.call("POST", "/v1/claims", {"selector": "x" * (4 << 10)})
        self.assertEqual((status, error["field"]), (400, "selector"))
        status, error = pool.call("POST", "/v1/claims", {"labels": {"a b": "c"}})
        self.assertEqual((status, error["field"]), (400, "labels"))
        many = {f"l{i}": "" for i in range(300)}
        status, error = pool.call("PUT", "/v1/hosts/one/labels", {"labels": many})
        self.assertEqual((status, error["message"]), (400, "300 labels: at most 64"))

    def test_a_wrong_file_is_named_with_its_line_and_changes_nothing(self):
        pool = self.serve()
        for text, words in (
            ("projects:\n  - name: a\n    wait: 2\n", "line 3: a project has no 'wait': it has "),
            ("projects:\n  - weight: 2\n", "line 2: a project without a name"),
            ("projects: {a: b}\n", "line 1: a list belongs here"),
            ("projects:\n  - {name: a, weight: -1}\n", "'-1': a number from 0 belongs here"),
            ("projects:\n  - {name: a, limit: {mem: 3XB}}\n", "write {mem: 80GiB, share: 250%"),
            ("users:\n  - {name: a, machine: maybe}\n", "machine: true or false"),
            ("users: [{name: a, roles: [{role: king}]}]\n", "user 'a': role 'king'"),
            ("projects:\n  - {name: '-1'}\n", "that begin with a letter or digit"),
            ("a: [b\n", "no YAML"),
            ("- a\n", "the file: names with values belong here"),
            # Nine anchors, each of nine of the one before: 10^9 values.
            (
                "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
                + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
                + "projects: *a8\n",
                "the file has no 'a0'",
            ),
        ):
            with self.subTest(text=text[:60]):
                done = subprocess.run(
                    [FARCALL, "pool", "apply", "-f", self.write(text), "--pool", pool.url],
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertIn(done.returncode, (1, 2))
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
        self.assertEqual(len(pool.get("/v1/projects")["projects"]), 1)
        self.assertIn("No such file", self.farcall(pool, "apply", "-f", "/nowhere", code=1))

    def test_a_thousand_objects_are_applied(self):
        pool = self.serve()
        text = "projects:\n" + "".join(f"  - {{name: p{i}, weight: 2}}\n" for i in range(1000))
        made = self.farcall(pool, "apply", "-f", self.write(text))
        self.assertIn("1000 of 1000 objects changed\n", made)
        self.assertEqual(pool.get("/v1/projects/p999")["weight"], 2)


if __name__ == "__main__":
    unittest.main()
