# SPDX-License-Identifier: Apache-2.0
"""Round trips, counted by the shim and by a proxy in the path."""

import pathlib
import tempfile
import time
import unittest

from harness import BUILD, Client, Server, link_proxy, proxy_of, run


def switches_of(pid, name):
    """How often the threads of that name have slept; 0: there is none, or no more."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            status = (task / "status").read_text()
        except OSError:
            continue
        if status.startswith(f"Name:\t{name}\n"):
            total += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return total


class Counts(unittest.TestCase):
    def measured(self, server, *command, cache=None, marks=(), **options):
        proxy = proxy_of(server, mark_ids=link_proxy.call_ids(*marks), **options)
        environment = {"FARCALL_CACHE_DIR": cache} if cache else {}
        client = run(proxy.url, *command, environment=environment)
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        counts = dict(proxy.counts, marks=list(proxy.marks))
        proxy.close()
        return client.stats(), counts

    def test_the_shims_round_trips_are_those_a_proxy_sees(self):
        with Server() as server:
            for command in (
                ("steps", 20, 0),
                ("steps", 3, 0, 8),
                (BUILD / "examples/stream_overlap",),
            ):
                stats, counts = self.measured(server, *command)
                lanes = min(counts["lane_hellos"], 1)  # they are dialled at once
                seen = counts["hellos"] + lanes + counts["wanted_replies"]
                self.assertEqual(stats["round_trips"], seen, command)
                self.assertEqual(counts["wanted_replies"], counts["replies"], command)

    def test_a_step_that_reads_one_value_waits_once(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            few, _ = self.measured(server, "steps", 10, 0, cache=cache)
            few, _ = self.measured(server, "steps", 10, 0, cache=cache)
            many, _ = self.measured(server, "steps", 60, 0, cache=cache)
            self.assertEqual(many["round_trips"] - few["round_trips"], 50)

    def test_what_the_client_knows_costs_no_wait(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "questions", 5, cache=cache)
            few, _ = self.measured(server, "questions", 5, cache=cache)
            many, _ = self.measured(server, "questions", 45, cache=cache)
            self.assertEqual(many["round_trips"] - few["round_trips"], 40)  # the streams' waits

    def test_the_first_use_of_a_kernel_costs_no_wait(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "settings", 16, cache=cache)
            few, _ = self.measured(server, "settings", 2, cache=cache)
            many, _ = self.measured(server, "settings", 16, cache=cache)
            self.assertEqual(many["round_trips"], few["round_trips"])
            for name in ("cuKernelGetFunction", "cuKernelSetAttribute", "cuFuncSetAttribute"):
                self.assertEqual(many["calls"].get(name, {"waited": 0})["waited"], 0, name)
            self.assertGreaterEqual(
                many["posted"] - few["posted"], 14 * 4
            )  # two settings, the function, the launch

    def test_an_image_of_few_kernels_is_asked_once(self):
        """Its load waits; what is known of its kernels comes with the answer."""
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            stats, _ = self.measured(server, BUILD / "examples/vector_add", cache=cache)
            self.assertEqual(stats["calls"]["cuLibraryLoadData"]["waited"], 1)
            self.assertEqual(
                (
                    stats["calls"]["cuLibraryGetKernel"]["calls"],
                    stats["calls"]["cuLibraryGetKernel"]["waited"],
                ),
                (1, 0),
            )

    def test_a_tensor_described_again_costs_no_wait(self):
        with Server(device="dry") as server, tempfile.TemporaryDirectory() as cache:
            few, _ = self.measured(server, "descriptors", 2, cache=cache)
            many, _ = self.measured(server, "descriptors", 100, cache=cache)
            self.assertEqual(many["round_trips"], few["round_trips"])
            self.assertEqual(many["calls"]["cuTensorMapEncodeTiled"]["calls"], 102)

    def test_building_a_graph_waits_the_same_for_any_number_of_nodes(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "replays", 10, 5, cache=cache)
            few, _ = self.measured(server, "replays", 10, 5, cache=cache)
            many, _ = self.measured(server, "replays", 100, 5, cache=cache)
            self.assertEqual(many["round_trips"], few["round_trips"])
            self.assertEqual(many["calls"]["cuGraphAddKernelNode_v2"]["calls"], 100)

    def test_a_replay_is_one_record_and_no_wait(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "replays", 10, 5, cache=cache)
            few, _ = self.measured(server, "replays", 10, 5, cache=cache)
            many, _ = self.measured(server, "replays", 10, 105, cache=cache)
            self.assertEqual(many["round_trips"], few["round_trips"])
            self.assertEqual(many["posted"] - few["posted"], 100)

    def test_a_replay_with_host_copies_does_not_wait(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "replays", 10, 5, 1, cache=cache)
            few, _ = self.measured(server, "replays", 10, 5, 1, cache=cache)
            many, _ = self.measured(server, "replays", 10, 25, 1, cache=cache)
            self.assertEqual(many["round_trips"], few["round_trips"])
            self.assertEqual(many["posted"] - few["posted"], 20 * 3)  # up, launch, down

    def test_a_large_upload_leaves_the_flusher_asleep(self):
        """Its 256 records leave with their bytes: the flusher would tick for 1 ms after each post."""
        with Server() as server:
            client = Client(server.url, "big_copy", 1024)
            switches = 0
            while client.process.poll() is None:
                switches = max(switches, switches_of(client.process.pid, "farcall-flush"))
                time.sleep(0.01)
            client.wait()
            self.assertEqual(client.process.returncode, 0, (client.out, client.err))
            self.assertLess(switches, 256)

    def test_a_profiled_range_is_counted_apart(self):
        with Server() as server:
            stats, counts = self.measured(
                server, "ranged", 3, 5, marks=("cuProfilerStart", "cuProfilerStop")
            )
        profiled = stats["profiled"]
        self.assertEqual(profiled["round_trips"], 5)
        self.assertEqual(profiled["posted"], 3)
        self.assertEqual(profiled["calls"]["cuStreamSynchronize"]["waited"], 5)
        self.assertGreaterEqual(stats["calls"]["cuStreamSynchronize"]["waited"], 9)
        start, stop = counts["marks"]
        self.assertEqual(stop["wanted_replies"] - start["wanted_replies"], 5)
        self.assertEqual(
            stop["records_out"] - start["records_out"] - 1, 8
        )  # without the record that ends it

    def test_a_warm_start_takes_at_most_8_round_trips_to_the_first_kernel(self):
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, BUILD / "examples/vector_add", cache=cache)
            stats, _ = self.measured(server, BUILD / "examples/vector_add", cache=cache)
            self.assertLessEqual(stats["round_trips"], 8)

    def test_a_warm_start_takes_2_round_trips_to_the_end_of_the_first_kernel(self):
        """HELLO, and the wait. A server that grants no memory with WELCOME is asked for some."""
        with Server() as server, tempfile.TemporaryDirectory() as cache:
            self.measured(server, "waits", "first", cache=cache)
            stats, _ = self.measured(server, "waits", "first", cache=cache)
            self.assertEqual(stats["round_trips"], 2, stats["calls"])
            older = 1 << link_proxy.FIRST_CREDIT
            stats, _ = self.measured(server, "waits", "first", cache=cache, without_features=older)
            self.assertEqual(stats["round_trips"], 3, stats["calls"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
