# SPDX-License-Identifier: Apache-2.0
"""Gangs: claims on several hosts that start together or not at all."""

import re
import subprocess
import unittest

from harness import CLIENT_ROOM, FARCALL, run, until
from pool_case import MIB, PoolCase


class Gangs(PoolCase):
    def farcall(self, pool, *words, code=0):
        done = subprocess.run(
            [FARCALL, "pool", *map(str, words), "--pool", pool.url],
            capture_output=True,
            text=True,
            timeout=90,
        )
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def gang(self, pool, id):
        return pool.get("/v1/gangs/" + id)

    def variables(self, text):
        return dict(re.findall(r"^export (\w+)='(.*)'$", text, re.MULTILINE))

    def test_members_on_two_hosts_start_together_and_end_together(self):
        pool = self.serve()
        self.host(pool, "one"), self.host(pool, "two")
        shown = self.farcall(pool, "request", "--gang", 2)
        id = shown.split()[0]
        gang = self.gang(pool, id)
        self.assertEqual((gang["state"], gang["size"]), ("bound", 2))
        self.assertEqual({member["host"] for member in gang["members"]}, {"one", "two"})
        for rank, member in enumerate(gang["members"]):
            self.assertRegex(member["endpoints"][0], r"^tcp://")
            env = self.variables(self.farcall(pool, "env", id, "--rank", rank))
            self.assertEqual(env["FARCALL_CLAIM"], f"{id}-{rank}")
            self.assertEqual(
                (env["PET_NNODES"], env["PET_NODE_RANK"], env["PET_NPROC_PER_NODE"]),
                ("2", str(rank), "1"),
            )
            self.assertEqual((env["RANK"], env["WORLD_SIZE"]), (str(rank), "2"))
            self.assertEqual(env["FARCALL_ENDPOINT"], pool.endpoint)
            client = self.teller(pool, **env)
            self.assertEqual(self.say(client, f"take {100 * MIB}"), "code 0")
        self.assertEqual(
            self.variables(self.farcall(pool, "env", id, "--master-addr", "node7"))["MASTER_ADDR"],
            "node7",
        )
        self.assertIn("rank 1 of 2", self.farcall(pool, "list"))
        self.farcall(pool, "release", id + "-1")
        until(
            lambda: {m["state"] for m in self.gang(pool, id)["members"]} == {"released"},
            what="the end of both",
        )

    @unittest.skipIf(
        CLIENT_ROOM, "a list of servers needs more addresses than ThreadSanitizer leaves"
    )
    def test_one_program_has_the_devices_of_all_members(self):
        pool = self.serve()
        self.host(pool, "one"), self.host(pool, "two", environment={"FARCALL_CPU_DEVICES": "2"})
        id = self.farcall(pool, "request", "--gang", 3, "--mem", "100MiB").split()[0]
        env = self.variables(self.farcall(pool, "env", id, "--one-program"))
        self.assertEqual(env["FARCALL_CLAIM"], ",".join(f"{id}-{rank}" for rank in range(3)))
        self.assertEqual(set(env), {"FARCALL_CLAIM", "FARCALL_ENDPOINT"})
        hosts = [member["host"] for member in self.gang(pool, id)["members"]]
        self.assertEqual(sorted(hosts), ["one", "two", "two"])  # two claims of one server
        environment = {"FARCALL_CLAIM": env["FARCALL_CLAIM"]}
        listed = run(env["FARCALL_ENDPOINT"], "servers", "list", environment=environment)
        buses = [line.split(":")[0] for line in listed.out if line.startswith(("0", "1", "2"))]
        self.assertEqual(buses, ["0000", "1000", "2000"], (listed.out, listed.err))
        for what in ("compute", "copies", "waits"):
            client = run(pool.endpoint, "servers", what, environment=environment)
            self.assertEqual(client.out[-1:], ["ok"], (what, client.out, client.err))
        client = self.teller(pool, **environment)
        self.assertIn(f"of {100 * MIB}", self.say(client, "free"))

        for claims, why in (
            (f"{id}-0,{id}-0", f"names {id}-0 twice"),
            (f"{id}-0,", "has a claim without a name"),
            (",".join(f"c-{number}" for number in range(17)), "names more than 16 claims"),
        ):
            client = run(pool.endpoint, "servers", "list", environment={"FARCALL_CLAIM": claims})
            self.assertNotEqual(client.process.returncode, 0)
            self.assertIn(why, "\n".join(client.err))
        client = run(
            pool.endpoint,
            "servers",
            "list",
            environment={"FARCALL_CLAIM": f"{id}-0,c-0123456789abcdef"},
        )
        self.assertIn("c-0123456789abcdef", "\n".join(client.err))
        listed = run(pool.endpoint, "servers", "list", environment=environment)
        self.assertEqual(listed.process.returncode, 0, "the claim of a list that failed is free")

    def test_it_waits_for_all_and_one_that_could_never_fit_is_refused(self):
        pool = self.serve()
        self.host(pool, "one"), self.host(pool, "two")
        whole = self.farcall(pool, "request").split()[0]
        told = self.farcall(pool, "request", "--gang", 2, "--wait", 1, code=5)
        self.assertIn("room for 1 of 2 members", told)
        self.assertIn("is released", told)
        told = self.farcall(pool, "request", "--gang", 3, code=1)
        self.assertIn("a gang of 3 can never start: the pool's 2 GPUs", told)
        status, refused = pool.call("POST", "/v1/gangs", {"members": 3, "member": {}})
        self.assertEqual((status, refused["field"]), (409, "members"))
        status, refused = pool.call("POST", "/v1/gangs", {"members": 300})
        self.assertEqual((status, refused["field"]), (400, "members"))

        kept = self.farcall(pool, "request", "--gang", 2, "--wait", 0, "--keep").split()[0]
        self.assertEqual(self.gang(pool, kept)["state"], "pending")
        self.assertIn("not bound", self.farcall(pool, "env", kept, code=5))
        plan = pool.post("/v1/gangs:plan", members=2)
        self.assertEqual((plan["fits_now"], plan["could_ever_fit"]), (False, True))
        self.farcall(pool, "release", whole)
        until(lambda: self.gang(pool, kept)["state"] == "bound", what="room for all")

    def test_it_outlives_its_controller(self):
        pool = self.serve()
        self.host(pool, "one"), self.host(pool, "two")
        id = self.farcall(pool, "request", "--gang", 2).split()[0]
        client = self.teller(pool, FARCALL_CLAIM=id + "-0")
        addresses = pool.addresses()
        pool.stop()
        again = self.serve(**addresses)
        until(
            lambda: {host["state"] for host in again.hosts().values()} == {"ready"},
            what="its hosts",
        )
        gang = self.gang(again, id)
        self.assertEqual((gang["state"], len(gang["members"])), ("bound", 2))
        self.assertEqual(self.say(client, f"take {MIB}"), "code 0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
