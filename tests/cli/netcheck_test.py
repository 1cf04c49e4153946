# SPDX-License-Identifier: Apache-2.0
"""`farcall netcheck`: which transports are measured, which are not and why, and what is predicted."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from query_test import Case  # noqa: E402


class Netcheck(Case):
    def netcheck(self, *flags):
        found = json.loads(self.farcall("netcheck", "--json", *flags).stdout)
        return found["endpoint"], {row["transport"]: row for row in found["transports"]}

    def test_each_way_that_the_server_has_is_measured(self):
        server = self.serve("--shm", self.folder / "socket")
        endpoint, ways = self.netcheck("--endpoint", server.url)
        self.assertEqual(endpoint, server.url)
        self.assertEqual(list(ways), ["tcp", "shm"])
        for way in ways.values():
            self.assertNotIn("why_not", way)
            self.assertGreater(way["round_trip_us"], 0)
            self.assertGreater(way["up_bytes_per_s"], 0)
            self.assertGreater(way["down_bytes_per_s"], 0)
            self.assertIn(way["copied_bytes"], [1 << power for power in range(20, 27)])

    def test_a_way_that_is_not_there_has_its_reason(self):
        server = self.serve()
        _, ways = self.netcheck("--endpoint", server.url)
        self.assertIn("serve --shm auto", ways["shm"]["why_not"])
        table = self.farcall("netcheck", "--endpoint", server.url).stdout
        self.assertRegex(table, r"(?m)^tcp +[\d.]+ +[\d.e+]+ +[\d.e+]+$")
        self.assertIn("shm: the server offers no shared memory", table)

    def test_an_endpoint_over_shared_memory_is_measured_alone(self):
        path = self.folder / "socket"
        self.serve("--shm", path)
        _, ways = self.netcheck("--endpoint", f"shm://{path}")
        self.assertEqual(list(ways), ["shm"])
        self.assertGreater(ways["shm"]["round_trip_us"], 0)

    def test_a_report_gives_what_a_program_would_wait(self):
        report = self.folder / "cost.json"
        report.write_text(
            json.dumps({"waits": 1000, "bytes_up": 5_000_000, "bytes_down": 7_000_000})
        )
        server = self.serve()
        _, ways = self.netcheck("--endpoint", server.url, "--report", report)
        way = ways["tcp"]
        predicted = (
            1000 * way["round_trip_us"] / 1e6
            + 5_000_000 / way["up_bytes_per_s"]
            + 7_000_000 / way["down_bytes_per_s"]
        )
        self.assertAlmostEqual(way["network_seconds"], predicted, places=6)
        self.assertNotIn("network_seconds", ways["shm"])

    def test_what_it_cannot_read_or_ask_is_refused_in_one_line(self):
        report = self.folder / "cost.json"
        report.write_text('{"waits": "many"}')
        server = self.serve()
        for flags, code, line in (
            (("--endpoint", server.url, "--report", report), 2, "has no 'waits': give a file that"),
            (
                ("--endpoint", server.url, "--report", self.folder / "nowhere"),
                2,
                "has no 'waits': give a file that",
            ),
            (("--endpoint", "pool://127.0.0.1"), 2, "a pool has many servers"),
            ((), 2, "no server is named and none runs here"),
            (("--endpoint", "tcp://127.0.0.1:1"), 1, "tcp://127.0.0.1:1"),
        ):
            done = self.farcall("netcheck", *flags, code=code)
            self.assertEqual(done.stdout, "")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(line, done.stderr)


if __name__ == "__main__":
    unittest.main()
