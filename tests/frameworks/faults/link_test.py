# SPDX-License-Identifier: Apache-2.0
"""PyTorch while its link is cut, its server killed, its grace spent."""

import os
import time

from support import CUT_S, FaultTest, Server, go_on, main, start, told, until

RUNS = {
    "step": ("training.py", "eager", 20),
    "capture": ("training.py", "capture", 10),
    "replay": ("training.py", "capture", 10),
    "epoch 0": ("loading.py", 4),
}


class Cuts(FaultTest):
    device = "dry"
    _undisturbed = {}

    def undisturbed(self, server, command):
        """The counts of a run without a fault."""
        key = (self.device, command)
        if key not in self._undisturbed:
            self._undisturbed[key] = self.whole_run(server, command)
        return self._undisturbed[key]

    def whole_run(self, server, command):
        client = start(server.url, *command)
        for _ in range(3):
            go_on(client)
        self.ends_right(client)
        return client.stats()

    def cut_at(self, place):
        """The link is away while the program goes on from `place`; it then ends as if nothing had been."""
        with Server(device=self.device) as server:
            before = self.undisturbed(server, RUNS[place])
            proxy = self.through_proxy(server)
            client = start(proxy.url, *RUNS[place])
            while f"at {place}" not in client.out:
                seen = len(client.out)
                until(
                    lambda: len(client.out) > seen or client.process.poll() is not None, 120, place
                )
                self.assertIsNone(client.process.poll(), told(client))
                if client.out[-1] != f"at {place}":
                    go_on(client)
            proxy.cut(refuse=True)
            for _ in range(3):
                go_on(client)
            time.sleep(CUT_S)
            proxy.restore()
            self.ends_right(client)
            self.sane(before, client.stats(), proxy)

    def sane(self, before, after, proxy):
        self.assertGreater(proxy.counts["hellos"], 1, "the link was not cut")
        for name in ("round_trips", "posted", "local"):
            # The run before may have been the first, and asked more; how often an event is recorded depends on time.
            self.assertLessEqual(after[name], 1.1 * before[name] + 10, name)

    def cut_in_a_download(self, kind):
        with Server(device=self.device) as server:
            proxy = self.through_proxy(server)
            client = start(proxy.url, "download.py", kind, 2)
            client.wait_line("at download")
            cut = proxy.cut_when("bytes_in", proxy.counts["bytes_in"] + (30 << 20))
            go_on(client)
            self.assertTrue(cut.wait(120), told(client))
            time.sleep(CUT_S)
            proxy.restore()
            self.ends_right(client)
            self.assertLess(
                proxy.counts["bytes_in"],
                300 << 20,
                "200 MiB came home, and what was on its way at the cut",
            )


class LinkLost(Cuts):
    def test_in_a_training_step(self):
        self.cut_at("step")

    def test_in_a_capture(self):
        self.cut_at("capture")

    def test_between_replays(self):
        self.cut_at("replay")

    def test_while_data_loaders_feed_it(self):
        self.cut_at("epoch 0")

    def test_in_a_download_of_100_mib_to_pageable_memory(self):
        self.cut_in_a_download("pageable")

    def test_in_a_download_of_100_mib_to_pinned_memory(self):
        self.cut_in_a_download("pinned")


class LinkLostWithValues(Cuts):
    """Where matrix products are computed."""

    device = "cpu"

    def test_in_a_training_step(self):
        self.cut_at("step")

    def test_in_a_capture(self):
        self.cut_at("capture")

    def test_in_a_download(self):
        self.cut_in_a_download("pageable")


class SessionLost(FaultTest):
    def ends_by_itself(self, client):
        """Python leaves with PyTorch's exception, and one line of ours says why."""
        self.assertEqual(client.wait(90), 1, told(client))
        ours = [
            number
            for number, line in enumerate(client.err)
            if line.startswith("farcall")
            and " error" in line
            and not client.err[number - 1].startswith("The CUDA driver logged these messages")
        ]  # PyTorch repeats it
        self.assertEqual(len(ours), 1, told(client))
        self.assertTrue([line for line in client.err if "CUDA error" in line], told(client))

    def lost_at(self, place, lose, *flags):
        with Server(*flags, device="dry") as server:
            proxy = self.through_proxy(server)
            client = start(proxy.url, *RUNS[place])
            client.wait_line(f"at {place}")
            workers = server.workers()
            lose(server, proxy)
            for _ in range(3):
                go_on(client)
            self.ends_by_itself(client)
            until(
                lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers),
                what="the worker ends",
            )

    def test_the_server_is_killed_in_a_step(self):
        self.lost_at("step", lambda server, _: server.process.kill(), "--grace", "2")

    def test_the_server_is_killed_in_a_capture(self):
        self.lost_at("capture", lambda server, _: server.process.kill(), "--grace", "2")

    def test_the_server_is_killed_while_data_loaders_feed_it(self):
        self.lost_at("epoch 0", lambda server, _: server.process.kill(), "--grace", "2")

    def test_the_grace_is_spent_in_a_step(self):
        self.lost_at("step", lambda _, proxy: proxy.cut(refuse=True), "--grace", "2")

    def test_the_grace_is_spent_in_a_capture(self):
        self.lost_at("capture", lambda _, proxy: proxy.cut(refuse=True), "--grace", "2")


if __name__ == "__main__":
    main()
