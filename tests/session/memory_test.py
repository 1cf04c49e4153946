# SPDX-License-Identifier: Apache-2.0
"""Memory in all its kinds through a session: mapped by the program, lent to another process, under a quota."""

import pathlib
import re
import sys
import unittest

from harness import BUILD, SCHEME, Server, Teller, run, until

VGPU = {"FARCALL_VGPU": "a-vgpu-of-these-tests"}


class Memory(unittest.TestCase):
    def passes(self, server, *command, **options):
        client = run(server.url, *command, **options)
        self.assertEqual(
            (client.process.returncode, client.out[-1:]), (0, ["done"]), (client.out, client.err)
        )
        return client

    def test_a_segment_grows_piece_by_piece(self):
        with Server("--mem", "256MiB") as server:
            client = self.passes(server, "mapped", "segment")
            calls = client.stats()["calls"]
            # Making memory is asked; everything else about it goes by posts, or nowhere.
            self.assertEqual(calls["cuMemCreate"]["waited"], 3)
            for name in (
                "cuMemMap",
                "cuMemSetAccess",
                "cuMemUnmap",
                "cuMemRelease",
                "cuMemAddressReserve",
            ):
                self.assertEqual(calls[name]["waited"], 0, name)

    def test_what_is_refused(self):
        with Server() as server:
            self.passes(server, "mapped", "refusals")
            self.passes(server, "mapped", "refusals", environment={"FARCALL_SYNC": "1"})

    def test_the_quota_is_kept_to_the_byte(self):
        with Server("--mem", "128MiB") as server:
            self.passes(server, "mapped", "exact")

    def test_all_that_is_free_can_be_had_at_once(self):
        for flags in ([], ["--oversubscribe", "1.5"], ["--overhead", "host"]):
            with Server("--mem", "128MiB", *flags) as server:
                for seed in (1, 2, 3):
                    with self.subTest(f"{flags} {seed}"):
                        self.assertIn("packed", self.passes(server, "packed", seed, 60).out[-2])
                    until(lambda: not server.workers(), what="its memory is back")

    def test_all_that_is_free_can_be_had_while_a_long_kernel_runs(self):
        """What is free lies in pieces of one chunk, which is only made smaller while nothing runs: that is waited for."""
        with Server("--mem", "64MiB") as server:
            teller = Teller(server)
            for size in (24 << 20, 4 << 20):
                self.assertEqual(teller.say(f"take {size}"), "code 0")
            self.assertEqual(teller.say("drop 0"), "dropped")
            self.assertEqual(teller.say("spin 4000"), "spins")
            free = int(teller.say("free").split()[1])
            self.assertGreater(free, 40 << 20)
            self.assertEqual(teller.say(f"take {free}"), "code 0", server.log_text())
            teller.end()

    def test_64_threads_race_for_the_quota(self):
        with Server("--mem", "128MiB") as server:
            out = self.passes(server, "mapped", "race", 64, 8).out
            made, refused, free = map(
                int, re.search(r"made (\d+) refused (\d+) free (\d+)", "\n".join(out)).groups()
            )
            self.assertGreater(made, 0)
            self.assertGreater(refused, 0)
            self.assertEqual(free, 128 << 20)

    def test_a_refusal_near_the_quota_is_one_question(self):
        """And of threads that ask at the same time, one asks. What is free stays where it is: nothing goes back to be granted again."""
        calls = 40
        with Server("--mem", "64MiB") as server:
            for threads in (1, 8):
                with self.subTest(threads=threads):
                    client = self.passes(server, "short", threads, calls)
                    (turns,) = re.findall(r"turns (\d+)", "\n".join(client.out))
                    none = self.passes(server, "short", 0, 0)
                    asked = client.stats()["round_trips"] - none.stats()["round_trips"]
                    # One for each refusal, one for each piece that was given back and taken again.
                    self.assertLessEqual(asked, threads * calls + int(turns))

    def test_memory_and_events_are_lent_inside_a_vgpu(self):
        with Server("--mem", "256MiB") as server:
            for what in ("allocation", "mapped", "pool", "event"):
                self.passes(server, "lent", what, environment=VGPU)

    def test_pools_reuse_what_a_stream_freed(self):
        with Server("--mem", "128MiB") as server:
            for case in ("reuse", "current"):
                self.passes(server, "pools", case)

    def test_64_threads_allocate_in_stream_order(self):
        with Server("--mem", "16MiB") as server:
            self.passes(server, "pools", "churn", 64, 12)

    def test_copies_in_batches(self):
        with Server() as server:
            self.passes(server, "pools", "batch")

    def test_one_device_reaches_another(self):
        with Server(environment={"FARCALL_CPU_DEVICES": "2"}) as server:
            self.passes(server, "pools", "peers")

    def test_kernels_reach_host_memory(self):
        with Server("--mem", "256MiB") as server:
            for case in (
                "mapped",
                "direct",
                "registered",
                "side-by-side",
                "replayed",
                "polled",
                "beside",
                "callbacks",
            ):
                with self.subTest(case):
                    self.passes(server, "mirrored", case)

    def test_a_launch_may_wait_for_a_host_function(self):
        with Server(environment={"FARCALL_CPU_LOADING": "wait"}) as server:
            for _ in range(3):
                self.passes(server, "awaited", "loading")

    def test_a_kernel_may_wait_for_a_flag_that_is_set_before_a_wait(self):
        with Server() as server:
            self.passes(server, "awaited", "released")

    @unittest.skipIf(SCHEME == "shm", "shared host memory is counted otherwise (session.shm)")
    def test_what_a_kernel_wrote_to_host_memory_comes_with_the_wait(self):
        with Server() as server:
            steps = self.passes(server, "mirrored", "small").stats()["profiled"]
            self.assertEqual(steps["round_trips"], 20)
            # Much of it is asked for, at most once for every 4 MiB.
            steps = self.passes(server, "mirrored", "large").stats()["profiled"]
            self.assertGreater(steps["round_trips"], 2)
            self.assertLessEqual(steps["round_trips"], 2 * (2 + 24 // 4 + 2))

    def test_managed_memory(self):
        with Server("--mem", "256MiB") as server:
            for case in ("managed", "advice"):
                with self.subTest(case):
                    self.passes(server, "mirrored", case)

    def test_declared_variables_are_charged(self):
        for device in ("cpu", "dry:t4"):  # of PTX, of machine code
            with self.subTest(device), Server("--mem", "64MiB", device=device) as server:
                self.passes(server, "declared")

    def test_managed_variables(self):
        with Server() as server:
            client = self.passes(server, "variables")
            self.assertEqual(client.stats()["calls"]["cuLaunchKernel"]["waited"], 0)

    def test_managed_variables_on_the_device_alone(self):
        self.alone("variables")

    def alone(self, *command):
        client = run(
            "", *command, environment={"LD_LIBRARY_PATH": str(BUILD / "lib/farcall/device")}
        )
        self.assertEqual(
            (client.process.returncode, client.out[-1:]), (0, ["done"]), (client.out, client.err)
        )

    @unittest.skipIf(SCHEME == "shm", "shared host memory is counted otherwise (session.shm)")
    def test_host_memory_that_is_only_copied_costs_no_round_trip(self):
        with Server() as server:
            calls = self.passes(server, "mirrored", "untouched").stats()["calls"]
            self.assertEqual(calls["cuLaunchKernel"]["waited"], 0)
            self.assertEqual(calls["cuMemHostAlloc"]["waited"], 0)

    @unittest.skipIf(SCHEME == "shm", "shared host memory is counted otherwise (session.shm)")
    def test_locked_host_memory_has_a_quota_of_its_own(self):
        """Of the vGPU, not of each process; back when one ends."""
        program = pathlib.Path(__file__).parent / "programs/locked.py"
        with Server("--host-mem", "32MiB") as server:
            for _ in range(2):
                client = run(server.url, sys.executable, program, environment=VGPU)
                self.assertEqual(client.out, ["locked 4 then 2", "again 0"], client.err)
                until(lambda: not server.workers(), what="the session is over")
            self.assertIn(
                "pinned host memory: asked 8388608 bytes, 0 free of 33554432", server.log_text()
            )

    def test_nothing_is_lent_to_another_vgpu(self):
        with Server() as server:
            client = run(server.url, "lent", "allocation")
            self.assertNotEqual(client.process.returncode, 0)
            self.assertIn("cudaIpcOpenMemHandle", "\n".join(client.out))


if __name__ == "__main__":
    unittest.main(verbosity=2)
