# SPDX-License-Identifier: Apache-2.0
"""What the command line shows of a pool and asks of it; `farcall pool dev`; watches without a gap."""

import json
import os
import re
import subprocess
import sys
import unittest
import urllib.request

from harness import FARCALL, HERE, run, until
from pool_case import MIB, PoolCase


class PoolCommandLine(PoolCase):
    def test_the_command_line_requests_lists_explains_and_releases(self):
        pool = self.serve()
        self.host(pool, "one")

        def farcall(*command):
            done = subprocess.run(
                [FARCALL, "pool", *command, "--pool", pool.url],
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        claim = json.loads(farcall("request", "--mem", "64MiB", "--share", "30%", "--json"))
        self.assertEqual((claim["state"], claim["request"]["share_milli"]), ("bound", 300))
        self.assertIn(f"{claim['id']}  bound", farcall("list"))
        self.assertIn("one  ready", farcall("list", "--hosts"))
        explained = farcall("explain", claim["id"]).splitlines()
        self.assertEqual(explained[0], "bound: on one")
        self.assertEqual(explained[1], "  placement: pack")
        self.assertIn("quota: project default uses 64 MiB, 300 thousandths", explained[2])
        self.assertIn(claim["id"], farcall("release", claim["id"]))
        until(lambda: pool.claim(claim["id"])["state"] == "released", what="released")
        self.assertIn("drain", farcall("drain", "one"))

    def test_a_request_without_a_place_is_released(self):
        pool = self.serve()
        self.host(pool, "one")

        def request(*flags):
            return subprocess.run(
                [FARCALL, "pool", "request", *flags, "--pool", pool.url],
                capture_output=True,
                text=True,
                timeout=60,
            )

        # What no GPU could hold is told at once: nobody waits the 60 s that it might have.
        never = request("--mem", "100TiB")
        self.assertEqual(never.returncode, 5, never.stderr)
        self.assertRegex(
            never.stderr,
            r"^farcall pool request: no place: .*none could ever take it.* is released \(--keep ",
        )
        self.assertEqual(pool.claim(never.stdout.split()[0])["state"], "released")
        whole = request("--share", "100%")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        late = request("--share", "50%", "--wait", "0.2")
        self.assertEqual(late.returncode, 5, late.stderr)
        self.assertEqual(pool.claim(late.stdout.split()[0])["state"], "released")
        kept = request("--share", "50%", "--wait", "0.2", "--keep")
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(pool.claim(kept.stdout.split()[0])["state"], "pending")

    def test_a_run_that_no_gpu_could_hold_starts_no_program(self):
        pool = self.serve()
        self.host(pool, "one")

        def run_with(*flags, **variables):
            return subprocess.run(
                [FARCALL, "run", "--endpoint", pool.endpoint, *flags, "--", "echo", "started"],
                capture_output=True,
                text=True,
                timeout=60,
                env=os.environ | variables,
            )

        for done in (run_with("--mem", "100TiB"), run_with(FARCALL_MEM="100TiB")):
            self.assertEqual((done.returncode, done.stdout), (125, ""), done.stderr)
            self.assertRegex(
                done.stderr,
                r"\Afarcall run: pool://\S+: no place in the pool: .*none could ever take it\n\Z",
            )
        # What fits once others have ended is waited for by the program.
        self.assertEqual(pool.get("/v1/claims")["total"], 0)
        fits = run_with("--mem", "64MiB")
        self.assertEqual((fits.returncode, fits.stdout), (0, "started\n"), fits.stderr)

    def test_devices_of_a_pool_are_listed(self):
        pool = self.serve()
        self.host(pool, "one")
        done = subprocess.run(
            [FARCALL, "devices", "--endpoint", pool.endpoint],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^HOST +DEVICE")
        self.assertRegex(done.stdout, r"(?m)^one +0 +Farcall CPU Device")

    def watch(self, pool, path, last_id=None):
        """Events as (kind, id, data), as they come."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        answer = urllib.request.urlopen(
            urllib.request.Request(pool.url + path, headers=headers), timeout=60
        )
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
        self.assertEqual(
            {(kind, claim["id"]) for kind, _, claim in seen}, {("claim", second["id"])}
        )
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
        self.assertEqual(
            (kind, host["name"], host["gpus"][0]["used_bytes"]), ("host", "one", str(64 * MIB))
        )

    def test_ps_and_top_show_what_runs_on_all_hosts(self):
        pool = self.serve("--placer", "spread", token="secret")
        environment = {"FARCALL_TOKEN": "secret"}
        for name in ("one", "two"):
            self.host(pool, name, "--pool-token-file", self.join_token(pool))
        clients = [
            self.teller(pool, FARCALL_MEM="64MiB", FARCALL_SHARE=share, FARCALL_TOKEN="secret")
            for share in ("25%", "75%")
        ]

        def farcall(*command, **with_environment):
            return subprocess.run(
                [FARCALL, *command, "--endpoint", pool.endpoint],
                capture_output=True,
                text=True,
                timeout=60,
                env={**os.environ, **environment, **with_environment},
            )

        def sessions():
            done = farcall("ps", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            hosts = json.loads(done.stdout)["hosts"]
            found = {
                host["host"]: [
                    session["pid"]
                    for vgpu in host["status"]["vgpus"]
                    for session in vgpu["sessions"]
                ]
                for host in hosts
            }
            return found if all(found.values()) else None

        found = until(sessions, what="both sessions")
        self.assertEqual(
            (set(found), sorted(sum(found.values(), []))),
            ({"one", "two"}, sorted(client.process.pid for client in clients)),
        )
        shown = farcall("ps").stdout
        self.assertRegex(shown, r"^HOST +SESSION +JOB +USER +VGPU")
        for name in ("one", "two"):
            self.assertRegex(shown, rf"(?m)^{name} +\d+ .* c-")
        top = farcall("top", "--views", "2", "--interval", "0.2")
        self.assertEqual((top.returncode, top.stdout.count("AS OF")), (0, 2), top.stderr)
        self.assertRegex(top.stdout, r"(?m)^(one|two) .* c-\S+ +0 .* 75% .* normal ")
        self.assertIn("the token is wrong", farcall("ps", FARCALL_TOKEN="wrong").stderr)
        nobody = subprocess.run(
            [FARCALL, "ps", "--endpoint", "pool://127.0.0.1:1"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(
            (nobody.returncode, len(nobody.stderr.splitlines())), (1, 1), nobody.stderr
        )

    def test_dev_is_a_pool_in_one_command(self):
        process = subprocess.Popen(
            [FARCALL, "pool", "dev"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            endpoint = re.search(r"pool on (pool://\S+),", process.stdout.readline()).group(1)
            client = run(endpoint, sys.executable, HERE / "programs/teller.py")
            self.assertEqual((client.process.returncode, client.out), (0, ["ready"]))
        finally:
            process.terminate()
            self.assertEqual(process.wait(timeout=60), 0)
            process.stdout.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
