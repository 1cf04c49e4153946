# SPDX-License-Identifier: Apache-2.0
"""Links cut, workers and servers killed, under a program that is running."""

import os
import signal
import pathlib
import subprocess
import time
import unittest

from harness import CLIENT_ROOM, Client, Server, link_proxy, run, until

# How long the link stays away in the tests that resume; FARCALL_TEST_CUT_S=30 for the long form.
CUT_S = float(os.environ.get("FARCALL_TEST_CUT_S", "2"))


class Faults(unittest.TestCase):
    def through_proxy(self, server):
        proxy = link_proxy.LinkProxy(("127.0.0.1", server.port))
        self.addCleanup(proxy.close)
        return proxy

    def finishes_right(self, client):
        self.assertEqual(client.wait(), 0, (client.out[-3:], client.err[-5:]))
        self.assertEqual(client.out[-1], "right")

    def fails_once(self, client, limit_s=30):
        """The program ends by itself, with an error of the API and one line that names the cause."""
        self.assertEqual(client.wait(limit_s), 3, (client.out[-3:], client.err[-5:]))
        errors = [line for line in client.err if "error" in line.lower()]
        self.assertEqual(len(errors), 1, client.err)

    def test_a_cut_link_is_resumed_and_the_results_are_right(self):
        with Server() as server:
            proxy = self.through_proxy(server)
            client = Client(proxy.url, "steps", 40, 50)
            client.wait_line("step 5")
            proxy.cut(refuse=True)
            time.sleep(CUT_S)
            proxy.restore()
            self.finishes_right(client)

    def test_a_link_cut_again_and_again_in_bulk_copies_is_resumed(self):
        with Server() as server:
            proxy = self.through_proxy(server)
            client = Client(proxy.url, "steps", 12, 20, 16)
            for step in (2, 4, 6, 8):
                client.wait_line(f"step {step}")
                proxy.cut()
            self.finishes_right(client)

    def test_a_link_cut_again_and_again_loses_nothing_of_mapped_memory(self):
        with Server() as server:
            for case in ("beside", "direct"):
                proxy = self.through_proxy(server)
                client = Client(proxy.url, "mirrored", case)
                for _ in range(5):
                    time.sleep(0.2)
                    proxy.cut()
                self.assertEqual(
                    (client.wait(), client.out[-1:]), (0, ["done"]), (client.out, client.err)
                )

    def test_a_black_hole_longer_than_the_silence_limit_is_resumed(self):
        with Server() as server:
            proxy = self.through_proxy(server)
            client = Client(proxy.url, "steps", 30, 50)
            client.wait_line("step 5")
            proxy.black_hole()
            time.sleep(6)
            proxy.cut()
            proxy.restore()
            self.finishes_right(client)

    def test_a_killed_worker_is_one_clear_error(self):
        with Server() as server:
            client = Client(server.url, "steps", 1000, 50)
            client.wait_line("step 3")
            for worker in server.workers():
                os.kill(worker, signal.SIGKILL)
            self.fails_once(client)
            self.assertIn(
                "the session has ended: the worker crashed: Killed; start the program again",
                "\n".join(client.err),
            )
            self.assertEqual(run(server.url, "steps", 3).process.returncode, 0)
            self.assertNotIn(
                "refused",
                server.log_text(),
                "its lanes and its log come back to a session that was",
            )

    def test_a_killed_server_is_one_clear_error(self):
        server = Server("--grace", "3")
        client = Client(server.url, "steps", 1000, 50)
        client.wait_line("step 3")
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        self.fails_once(client, 80)
        until(
            lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers),
            what="workers end with their server",
        )

    def test_a_drained_server_waits_for_its_sessions_no_longer_than_it_was_told(self):
        for flags, signals in (
            (("--drain", "1"), 1),
            ((), 2),
        ):  # without a limit it waits until the second signal
            server = Server(*flags)
            self.addCleanup(server.stop)
            client = Client(server.url, "steps", 1000, 50)
            client.wait_line("step 3")
            for _ in range(signals):
                server.process.send_signal(signal.SIGTERM)
                until(
                    lambda: "no new sessions" in server.log_text(),
                    what="the line of the first signal",
                )
            self.assertEqual(server.process.wait(60), 0)
            self.fails_once(client)
            self.assertIn(
                "the server is stopping" + ("; its time to drain is over" if flags else ""),
                "".join(client.err),
            )

    def test_a_link_cut_past_the_grace_is_one_clear_error(self):
        with Server("--grace", "2") as server:
            proxy = self.through_proxy(server)
            client = Client(proxy.url, "steps", 1000, 50)
            client.wait_line("step 3")
            proxy.cut(refuse=True)
            self.fails_once(client)
            until(lambda: not server.workers(), what="the worker ends after the grace")

    def test_a_killed_clients_bytes_are_back_for_its_neighbour(self):
        shared = {"FARCALL_VGPU": "one-vgpu-for-both"}
        with Server("--mem", "512MiB") as server:
            holder = Client(server.url, "hold", 450, stdin=subprocess.PIPE, environment=shared)
            holder.wait_line("held")
            refused = run(server.url, "hold", 450, environment=shared)
            self.assertEqual(
                (refused.process.returncode, refused.out),
                (3, ["error 2 cudaErrorMemoryAllocation"]),
            )
            waiting = Client(server.url, "hold", 450, "try", environment=shared)
            time.sleep(0.3)
            self.assertIsNone(waiting.process.poll(), (waiting.out, waiting.err))
            killed = time.monotonic()
            holder.kill()
            self.assertEqual(waiting.wait(), 0, (waiting.out, waiting.err))
            self.assertLess(
                time.monotonic() - killed, 1.0 + 5.0
            )  # the bound is 1 s; 5 s more for a busy machine

    def test_a_worker_gains_nothing_and_runs_nothing_else(self):
        with Server() as server:
            client = Client(server.url, "hold", 1, stdin=subprocess.PIPE)
            client.wait_line("held")
            [worker] = server.workers()
            status = dict(
                line.split(":", 1)
                for line in pathlib.Path(f"/proc/{worker}/status").read_text().splitlines()
            )
            self.assertEqual((status["NoNewPrivs"].strip(), status["Seccomp"].strip()), ("1", "2"))
            client.process.stdin.close()
            self.assertEqual(client.wait(), 0, client.err)

    @unittest.skipIf(CLIENT_ROOM, "a ThreadSanitizer worker needs 17 GiB for it")
    def test_a_copy_over_4_gib_works_or_says_there_is_no_memory(self):
        with Server("--mem", "6GiB") as server:
            self.finishes_right(Client(server.url, "big_copy", 4100))
            client = run(server.url, "big_copy", 7000)
            self.assertEqual(
                (client.process.returncode, client.out),
                (3, ["error 2 cudaErrorMemoryAllocation at cudaMalloc"]),
            )


if __name__ == "__main__":
    unittest.main(verbosity=2)
