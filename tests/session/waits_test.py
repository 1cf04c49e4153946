# SPDX-License-Identifier: Apache-2.0
"""What a wait costs, and what a program may rely on behind it."""

import re
import subprocess
import unittest

from harness import Client, Server, run

VGPU = {"FARCALL_VGPU": "the-vgpu-of-waits"}


class Waits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--mem", "2GiB")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def passes(self, *command, **options):
        client = run(self.server.url, "waits", *command, **options)
        self.assertEqual(
            (client.process.returncode, client.out[-1:]), (0, ["done"]), (client.out, client.err)
        )
        return client.stats()

    def test_work_that_was_lost_is_told_by_the_next_wait_whoever_heard_of_it_before(self):
        for case in ("lost-copy", "lost-event", "lost-callback"):
            with self.subTest(case):
                self.passes(case)

    def test_a_wait_behind_an_upload_alone_is_a_barrier_and_no_round_trip(self):
        row = self.passes("uploads", 30)["profiled"]["calls"]["cuStreamSynchronize"]
        self.assertEqual((row["calls"], row["waited"], row["posted"]), (31, 1, 30))
        row = self.passes("uploads", 30, environment={"FARCALL_SYNC": "1"})["profiled"]["calls"][
            "cuStreamSynchronize"
        ]
        self.assertEqual((row["calls"], row["waited"], row["posted"]), (31, 31, 0))

    def test_a_wait_that_has_something_to_tell_asks(self):
        self.assertEqual(
            self.passes("asked")["profiled"]["calls"]["cuStreamSynchronize"]["waited"], 5
        )

    def test_the_first_wait_behind_a_copy_to_the_host_asks_nobody(self):
        calls = self.passes("copied")["profiled"]["calls"]
        self.assertEqual(
            (calls["cuStreamSynchronize"]["calls"], calls["cuStreamSynchronize"]["waited"]), (12, 2)
        )
        self.assertEqual(
            (calls["cuCtxSynchronize_v2"]["calls"], calls["cuCtxSynchronize_v2"]["waited"]), (3, 2)
        )

    def test_a_synchronous_upload_is_a_barrier_where_a_stream_is_ordered_with_no_other(self):
        profiled = self.passes("settles", 30)["profiled"]
        self.assertEqual(profiled["round_trips"], 0, profiled["calls"])
        self.assertEqual(profiled["calls"]["cuMemcpyHtoD_v2"]["posted"], 30)

    def test_it_waits_behind_work_while_another_thread_has_its_own(self):
        profiled = self.passes("settles", 30, "second")["profiled"]
        self.assertEqual(profiled["calls"]["cuMemcpyHtoD_v2"]["waited"], 30)

    def test_the_time_between_two_events_comes_with_the_second_one(self):
        profiled = self.passes("pairs", 30)["profiled"]
        self.assertEqual(profiled["round_trips"], 30, profiled["calls"])
        self.assertEqual(profiled["calls"]["cuStreamSynchronize"]["waited"], 30)

    def test_a_program_that_allocates_more_and_more_asks_seldom(self):
        stats = self.passes("grows", 60)["profiled"]["calls"]
        name = next(name for name in stats if name.startswith("cuMemAlloc"))
        self.assertEqual(stats[name]["calls"], 60)
        self.assertLessEqual(stats[name]["waited"], 12)

    def test_what_others_have_not_spent_counts_as_free(self):
        def free_of(client):
            client.wait_line("free ")
            said = re.search(r"free (\d+) of (\d+)", "\n".join(client.out))
            self.assertIsNotNone(said, (client.out, client.err, client.process.poll()))
            return tuple(map(int, said.groups()))

        first = Client(
            self.server.url, "waits", "free", 150, environment=VGPU, stdin=subprocess.PIPE
        )
        free, total = free_of(first)
        self.assertEqual(total - free, 150 << 20)
        second = Client(
            self.server.url, "waits", "free", 0, environment=VGPU, stdin=subprocess.PIPE
        )
        free, total = free_of(second)
        self.assertEqual(total - free, 150 << 20)
        # All of it can be had: what the first holds without use is recalled.
        third = Client(
            self.server.url, "waits", "free", free >> 20, environment=VGPU, stdin=subprocess.PIPE
        )
        self.assertEqual(free_of(third)[0], 0)
        for client in (first, second, third):
            client.process.stdin.close()
            self.assertEqual(client.wait(), 0, (client.out, client.err))


if __name__ == "__main__":
    unittest.main(verbosity=2)
