# SPDX-License-Identifier: Apache-2.0
"""A session with nothing under way wakes no thread of its client or its worker, and
still ends, resumes and goes on as any."""

import tempfile
import time
import types
import unittest

from harness import Server, Teller, proxy_of, switches_of, until

WINDOW_S = 4.0  # several periods of any timer that a session had
ROUNDS = 12  # a link falls idle some seconds after its last frame


def still_window(pids):
    """Waits for a window in which no thread of the processes has run; the counts of
    the last one where there is none."""
    for _ in range(ROUNDS):
        before = [switches_of(pid) for pid in pids]
        time.sleep(WINDOW_S)
        woken = [switches_of(pid) - count for pid, count in zip(pids, before)]
        if not any(woken):
            return []
    return woken


class Idle(unittest.TestCase):
    def check(self, server, url=None):
        told = Teller(server if url is None else types.SimpleNamespace(url=url))
        self.addCleanup(told.client.kill)
        self.assertEqual(told.say("take 1"), "code 0")
        (worker,) = until(server.workers)
        self.assertEqual(still_window([told.client.process.pid, worker]), [])
        self.assertEqual(told.say("take 1"), "code 0")  # and goes on
        return told

    def test_nothing_runs_over_tcp(self):
        with Server() as server:
            self.check(server).end()
            until(lambda: not server.workers(), what="the session's end")

    def test_nothing_runs_over_shm(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            Server("--shm", f"{folder}/farcall.shm") as server,
        ):
            self.check(server, f"shm://{folder}/farcall.shm").end()
            until(lambda: not server.workers(), what="the session's end")

    def test_an_idle_session_whose_link_was_lost_goes_on(self):
        with Server("--grace", "60") as server:
            proxy = proxy_of(server)
            self.addCleanup(proxy.close)
            told = self.check(server, proxy.url)
            proxy.cut()
            self.assertEqual(told.say("take 1"), "code 0")
            told.end()

    def test_a_killed_client_ends_its_idle_session(self):
        with Server() as server:
            told = self.check(server)
            told.client.kill()
            until(lambda: not server.workers(), what="the session's end")


if __name__ == "__main__":
    unittest.main(verbosity=2)
