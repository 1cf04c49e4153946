# SPDX-License-Identifier: Apache-2.0
"""Times of day: reservations and claims that begin later, with time zones. And join tokens with uses."""

import datetime
import json
import subprocess
import unittest

from harness import FARCALL, until
from pool_case import MIB, PoolCase

ONE_HOUR, ONE_DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)


def utc(ahead):
    """What the clock shows so much later."""
    at = datetime.datetime.now(datetime.timezone.utc) + ahead
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


class Reservations(PoolCase):
    def cli(self, pool, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *words, "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def state(self, pool, claim):
        return pool.claim(claim["id"])["state"]

    def test_a_reservation_keeps_a_gpu_for_those_who_name_it(self):
        pool = self.serve()
        self.host(pool, "one")
        made = self.cli(pool, "reservation", "create", "course", "--end", utc(ONE_HOUR))
        self.assertRegex(made, r"course +running .* 1 +0 any +one:0")
        outside = pool.post("/v1/claims", memory_bytes=str(64 * MIB))
        inside = pool.post(
            "/v1/claims", memory_bytes=str(64 * MIB), reservation="course", wait_ms="20000"
        )
        self.assertEqual((inside["state"], self.state(pool, outside)), ("bound", "pending"))
        self.assertIn("1 reserved before it would end", self.cli(pool, "explain", outside["id"]))
        (listed,) = json.loads(self.cli(pool, "reservation", "list", "--json"))["reservations"]
        self.assertEqual((listed["claims"], listed["held"]), (1, ["one:0"]))
        self.cli(pool, "reservation", "delete", "course")
        until(lambda: self.state(pool, inside) == "expired", what="its end")
        self.assertEqual(pool.claim(inside["id"])["reason"], "reservation course was deleted")
        until(lambda: self.state(pool, outside) == "bound", what="the GPU")

    def test_what_a_new_controller_has_still(self):
        pool = self.serve()
        host = self.host(pool, "one")
        pool.post("/v1/reservations", name="course", begin=utc(ONE_DAY), end=utc(2 * ONE_DAY))
        later = pool.post("/v1/claims", begin=utc(ONE_HOUR))
        addresses = pool.addresses()
        pool.stop()
        pool = self.serve(**addresses)
        until(lambda: pool.hosts()["one"]["state"] == "ready", what="the host")
        (kept,) = pool.get("/v1/reservations")["reservations"]
        self.assertEqual((kept["name"], kept["state"]), ("course", "upcoming"))
        self.assertIn("its begin is in", pool.post(f"/v1/claims/{later['id']}:explain")["why"])
        # What would be over before may have the GPU.
        short = pool.post("/v1/claims", lifetime_ms="60000", wait_ms="20000")
        self.assertEqual(short["state"], "bound")
        host.stop()

    def test_a_claim_starts_at_its_begin(self):
        pool = self.serve()
        self.host(pool, "one")
        claim = pool.post(
            "/v1/claims", memory_bytes=str(64 * MIB), begin=utc(datetime.timedelta(seconds=3))
        )
        self.assertEqual(claim["state"], "pending")
        self.assertIn("its begin is in", self.cli(pool, "explain", claim["id"]))
        until(lambda: self.state(pool, claim) == "bound", what="its begin")

    def test_times_that_cannot_be_are_refused(self):
        pool = self.serve()
        self.host(pool, "one")
        berlin = " Europe/Berlin"
        for begin, why in (
            ("2020-01-01T08:00Z", "s ago"),
            ("2027-03-28 02:30" + berlin, "leave that time out: they go from 02:00 to 03:00"),
            ("2027-10-31 02:30" + berlin, "show that time twice: write +02:00 or +01:00"),
            ("2027-02-29 08:00Z", "no time that there is"),
            ("2027-01-01 08:00", "it has no time zone"),
            ("2027-01-01 08:00 Europe/Nowhere", "no time zone 'Europe/Nowhere' is known"),
            ("tomorrow", "no time that there is"),
            ("9999-01-01 08:00Z", "more than a year from now"),
        ):
            status, answer = pool.call("POST", "/v1/claims", {"begin": begin})
            self.assertEqual((status, answer["field"]), (400, "begin"), begin)
            self.assertIn(why, answer["message"])
        soon, later = utc(ONE_HOUR), utc(2 * ONE_HOUR)
        for body, field in (
            ({"begin": later, "end": soon}, "end"),
            ({"begin": soon}, "end"),
            ({"begin": soon, "end": later, "gpus": 5}, "gpus"),
            ({"begin": soon, "end": later, "selector": "=("}, "selector"),
            ({"begin": soon, "end": later, "project": "nobody"}, "project"),
        ):
            status, answer = pool.call("POST", "/v1/reservations", {"name": "r", **body})
            self.assertIn(status, (400, 409), body)
            self.assertEqual(answer["field"], field)
        self.assertEqual(
            self.cli(pool, "request", "--reservation", "r", code=1).count("no reservation 'r'"), 1
        )

    def test_a_join_token_lets_in_as_many_hosts_as_it_says(self):
        pool = self.serve("--token-file", self.operator(), token="secret-of-the-operator")
        made = pool.post("/v1/join-tokens", max_uses=2, note="rack 4")
        path = self.store.with_name("rack.token")
        path.write_text(made["token"] + "\n")
        for name in ("one", "two"):
            cache = self.store.with_name(name)
            self.host(
                pool,
                name,
                "--pool-token-file",
                str(path),
                environment={"FARCALL_CACHE_DIR": str(cache)},
                device="dry",
            )
        status, answer = pool.call("POST", "/v1/join", {"host": "three", "token": made["token"]})
        self.assertEqual((status, answer["field"]), (401, "token"), answer)
        self.assertEqual(pool.get("/v1/join-tokens")["join_tokens"], [])
        other = pool.post("/v1/join-tokens", max_uses=9, note="rack 5")
        (listed,) = pool.get("/v1/join-tokens")["join_tokens"]
        self.assertEqual(
            (listed["id"], listed["note"], listed["token"]), (other["id"], "rack 5", "")
        )
        status, gone = pool.call("DELETE", "/v1/join-tokens/" + other["id"])
        self.assertEqual((status, gone["max_uses"]), (200, 9))
        status, _ = pool.call("POST", "/v1/join", {"host": "three", "token": other["token"]})
        self.assertEqual(status, 401)
        # It is no client's.
        status, _ = pool.call(
            "GET", "/v1/claims", headers={"Authorization": "Bearer " + other["token"]}
        )
        self.assertEqual(status, 401)

    def operator(self):
        path = self.store.with_name("operator.token")
        path.write_text("secret-of-the-operator\n")
        path.chmod(0o600)
        return str(path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
