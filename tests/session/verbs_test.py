# SPDX-License-Identifier: Apache-2.0
"""Sessions over verbs://: programs, what is said where it is missing, how clients and workers end,
and a link that breaks. Most of it needs a card: tests/rdma/session runs it in a guest that has one."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from harness import BUILD, FARCALL, Client, run, until
from ucx_test import EXAMPLES, TOKEN, Cuttable
from ucx_test import Case as FabricCase

CARDS = pathlib.Path("/sys/class/infiniband")
HAS_CARD = CARDS.is_dir() and any(CARDS.iterdir())
# The interface behind the guest's card (scripts/rdma-guest), whose other end can be taken down.
PEER = pathlib.Path("/sys/class/net/rdma1")


class Case(FabricCase):
    def serve(self, *flags, **options):
        server = super().serve(*flags, **options)
        self.url = f"verbs://127.0.0.1:{server.port}"
        return server


@unittest.skipUnless(HAS_CARD, "no RDMA device here")
class Verbs(Case):
    def test_programs_run_and_their_bulk_copies_are_right(self):
        self.serve("--verbs", "auto")
        client = run(self.url, "steps", 4, 20, 4, environment={"FARCALL_LOG": "info"})
        self.assertEqual((client.process.returncode, client.out[-1]), (0, "right"), client.err)
        self.assertIn(f"connected to {self.url} over verbs (", "".join(client.err))

    def test_vector_add(self):
        self.serve("--verbs", "auto")
        client = run(self.url, EXAMPLES / "vector_add")
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))

    def test_train_mlp(self):
        self.serve("--verbs", "auto")
        client = run(self.url, EXAMPLES / "train_mlp")
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))

    def test_by_the_setting_behind_tcp_with_a_named_card(self):
        server = self.serve("--verbs", "rxe0:1:1", token=TOKEN)
        client = run(
            server.url,
            "steps",
            2,
            token=TOKEN,
            environment={
                "FARCALL_LOG": "info",
                "FARCALL_TRANSPORT": "verbs",
                "FARCALL_VERBS_DEVICE": "rxe0:1:1",
            },
        )
        self.assertEqual(client.process.returncode, 0, client.err)
        self.assertIn(f"connected to {server.url} over verbs (", "".join(client.err))
        self.refused(self.url, "the token is wrong", token="another-token")
        self.assertFalse(server.workers())

    def test_a_client_without_it_loads_nothing_of_it(self):
        server = self.serve("--verbs", "auto")
        client = Client(server.url, "steps", 1000, 20)
        client.wait_line("step 3")
        maps = pathlib.Path(f"/proc/{client.process.pid}/maps").read_text()
        [worker] = server.workers()
        maps += pathlib.Path(f"/proc/{worker}/maps").read_text()
        client.kill()
        self.assertNotIn("libibverbs", maps)

    def test_a_connection_that_is_cut_is_resumed(self):
        server = self.serve("--verbs", "auto")
        forwarder = Cuttable(server.port)
        self.addCleanup(forwarder.listener.close)
        client = Client(f"verbs://127.0.0.1:{forwarder.port}", "steps", 8, 50, 2)
        for step in (2, 5):
            client.wait_line(f"step {step}")
            forwarder.cut()
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    @unittest.skipUnless(PEER.exists(), "no link that may be broken")
    def test_a_link_that_breaks_for_a_moment_costs_time_alone(self):
        self.serve("--verbs", "auto")
        client = Client(self.url, "steps", 8, 50, 2)
        client.wait_line("step 2")
        for seconds in (0.3, 4):  # shorter and longer than the card repeats what is lost
            subprocess.run(["ip", "link", "set", "rdma1", "down"], check=True)
            time.sleep(seconds)
            subprocess.run(["ip", "link", "set", "rdma1", "up"], check=True)
        self.assertEqual((client.wait(), client.out[-1]), (0, "right"), client.err)

    def test_a_killed_worker_is_one_clear_error(self):
        server = self.serve("--verbs", "auto")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        self.assertNotEqual(client.wait(), 0)
        [line] = self.errors(client)
        self.assertIn("the session has ended: the worker crashed: Killed", line)
        self.assertEqual(run(self.url, "steps", 3).process.returncode, 0)

    def test_a_killed_client_ends_its_session_without_the_grace(self):
        server = self.serve("--verbs", "auto", "--grace", "600")
        client = Client(self.url, "steps", 1000, 20)
        client.wait_line("step 3")
        client.kill()
        until(lambda: not server.workers(), what="the worker ends with its client")

    def test_forked_children_leave_the_session_alone(self):
        self.serve("--verbs", "auto")
        client = Client(self.url, "hostile", "forks")
        self.assertEqual(client.wait(), 0, (client.out, client.err))
        self.assertEqual(client.out[-1], "done")

    def test_what_a_server_does_not_offer_is_said(self):
        self.serve()
        self.refused(self.url, "the server does not offer it", "serve --verbs auto")
        self.assertIn("does not offer it", self.doctor(self.url))

    def test_a_wrong_port_or_gid_is_said_by_the_side_that_has_it(self):
        self.serve("--verbs", "rxe0:1:200")
        self.refused(self.url, "on the server: verbs: rxe0, port 1: GID 200 is empty")
        wrong = {"FARCALL_VERBS_DEVICE": "rxe0:9"}
        self.refused(self.url, "transport verbs: rxe0 has no port 9", environment=wrong)

    def test_memory_that_may_not_be_locked_is_said(self):
        self.serve("--verbs", "auto")
        # Not as root, who may lock all.
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all", "bash", "-c"]
            + [f"ulimit -l 64; exec {EXAMPLES / 'vector_add'}"],
            capture_output=True,
            text=True,
            env=dict(
                os.environ,
                FARCALL_ENDPOINT=self.url,
                LD_LIBRARY_PATH=str(EXAMPLES.parent / "lib/farcall"),
            ),
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ulimit -l unlimited", done.stderr)

    def test_the_doctor_says_that_it_would_be_used(self):
        self.serve("--verbs", "auto")
        self.assertRegex(self.doctor(self.url), r"verbs, rxe0:1:1 \(::ffff:10\.77\.0\.1\)")


class Absent(Case):
    def test_what_this_side_lacks_is_said_before_a_server_is_asked(self):
        nowhere = {"FARCALL_IBVERBS_PATH": "/nowhere"}
        self.refused("verbs://127.0.0.1:1", "transport verbs: ", environment=nowhere)
        self.refused(
            "verbs://127.0.0.1:1",
            "is no RDMA device: write auto, or DEVICE[:PORT[:GID]]",
            environment={"FARCALL_VERBS_DEVICE": "mlx5_0:first"},
        )

    def serve_fails(self, *flags):
        done = subprocess.run(
            [str(FARCALL), "serve", "--device", "dry", *flags],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_nothing_of_ours_is_linked_with_it(self):
        for built in (BUILD / "lib/farcall/libcuda.so.1", FARCALL):
            done = subprocess.run(["nm", "-D", "-u", built], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotRegex(done.stdout, r"\b(ibv|rdma)_")

    @unittest.skipIf(HAS_CARD, "there is a card")
    def test_a_server_without_a_card_offers_none(self):
        for flags in (["--verbs", "auto"], ["--listen", "verbs://127.0.0.1:0"]):
            self.assertIn("no RDMA device is here", self.serve_fails(*flags))

    def test_a_wrong_choice_of_a_card_is_said(self):
        self.assertIn("DEVICE[:PORT[:GID]]", self.serve_fails("--verbs", "mlx5_0:first"))


if __name__ == "__main__":
    if not HAS_CARD:
        print("no RDMA device here: most of this is skipped", file=sys.stderr)
    unittest.main(verbosity=2)
