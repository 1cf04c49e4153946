# SPDX-License-Identifier: Apache-2.0
"""A claim of a higher queue priority takes the place of a preemptible one, which is warned and comes back."""

import http.server
import json
import os
import subprocess
import sys
import threading
import unittest

from harness import FARCALL, HERE, until
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

    def hook(self):
        """(its URL, what was posted to it so far)"""
        posted = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                size = int(self.headers["Content-Length"])
                posted.append((self.path, json.loads(self.rfile.read(size))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/warned?pool=a", posted

    def test_a_webhook_hears_of_the_warning_and_of_what_follows(self):
        url, posted = self.hook()
        pool = self.serve("--min-run", "0", "--preempt-grace", "1", "--preempt-webhook", url)
        self.host(pool, "one")
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        high = self.ask(pool, queue_priority=10)
        until(lambda: len(posted) == 2, what="two posts")
        self.assertEqual({path for path, _ in posted}, {"/warned?pool=a"})
        warning, after = [event for _, event in posted]
        self.assertEqual(
            (warning["kind"], warning["claim"], warning["host"]),
            ("claim_preempting", low["id"], "one"),
        )
        self.assertEqual(warning["text"], f"leaves for claim {high['id']}")
        self.assertIn(after["kind"], ("claim_releasing", "claim_pending"))
        self.assertEqual(after["claim"], low["id"])
        # Of claims that nobody warned it hears nothing.
        pool.call("DELETE", "/v1/claims/" + high["id"])
        until(lambda: self.state(pool, low) == "bound", what="its place again")
        self.assertEqual(len(posted), 2)

    def test_a_webhook_that_nobody_answers_holds_nothing_up(self):
        url = "http://127.0.0.1:1/"
        pool = self.serve("--min-run", "0", "--preempt-grace", "0", "--preempt-webhook", url)
        self.host(pool, "one")
        self.ask(pool, preemptible=True, wait_ms="20000")
        high = self.ask(pool, queue_priority=10)
        until(lambda: self.state(pool, high) == "bound", what="the other's place")
        until(lambda: "webhook http://127.0.0.1:1/ takes nothing" in pool.log_text(), what="a line")

    def test_the_program_gets_its_signal_while_it_can_still_save_its_work(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", "30")
        self.host(pool, "one")
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        run = [FARCALL, "run", "--endpoint", pool.endpoint, "--claim", low["id"]]
        program = subprocess.Popen(
            [*run, "--on-preempt", "TERM", "--", sys.executable]
            + [HERE / "programs/saves_on_signal.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "ready\n")
        high = self.ask(pool, queue_priority=10)
        # What lies on the device is there until the grace is over, and so is its session.
        out, err = program.communicate(timeout=60)
        self.assertEqual((program.returncode, out), (0, "saved 7\n"), err)
        self.assertIn(f"farcall run: the pool takes the place of claim {low['id']} in ", err)
        self.assertIn(f"(leaves for claim {high['id']})", err)

    def test_ps_shows_who_leaves_when_and_why(self):
        pool = self.serve("--min-run", "0", "--preempt-grace", "60")
        self.host(pool, "one")
        low = self.ask(pool, preemptible=True, wait_ms="20000")
        self.teller(pool, FARCALL_CLAIM=low["id"])

        def ps(*flags):
            done = subprocess.run(
                [FARCALL, "ps", "--endpoint", pool.endpoint, *flags],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        until(lambda: low["id"] in ps(), what="its session")
        self.assertNotIn("LEAVES", ps())
        high = self.ask(pool, queue_priority=10)
        until(lambda: self.state(pool, low) == "preempting", what="the warning")
        shown = ps()
        self.assertIn("LEAVES", shown.splitlines()[0])
        self.assertRegex(shown, rf"in \d+ s: leaves for claim {high['id']}")
        (host,) = json.loads(ps("--json"))["hosts"]
        (leaving,) = host["leaving"]
        self.assertEqual((leaving["claim"], leaving["state"]), (low["id"], "preempting"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
