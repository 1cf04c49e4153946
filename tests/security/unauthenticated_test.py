# SPDX-License-Identifier: Apache-2.0
"""Peers without a token, from the honest client's own address and from others: servers and pools with low limits survive
them, hold little for them, and let the honest client in throughout."""

import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time
import unittest

from harness import BUILD, INSTRUMENTED, Client, Server, link_proxy, run, until
import pool_case

PEER = BUILD / "tests/security/unauthenticated_peer"
TOKEN = "5f3c1f09aa57d2be4410987fe6d5c4b3a2918070605f4e3d2c1b0a9988776655"
WITHIN_MS = 1000
OWN, OTHERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
NOBODY = 64123  # root's processes are not counted, so that a server of root's becomes another user
# How many connections each holds; 0: it makes new ones as fast as it can.
FLOODS = {"wrong-tokens": 0, "connects": 0, "garbage": 0, "silence": 600, "half": 600, "drip": 300}


def tasks_of(user):
    """Processes and threads, as RLIMIT_NPROC counts them."""
    count = 0
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == user:
                count += len(list((entry / "task").iterdir()))
        except OSError:
            pass
    return count


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def settled_descriptors(pid):
    """Once their number stays: a server closes those of a session after its worker has gone."""
    counts = []

    def is_steady():
        counts.append(descriptors(pid))
        return len(counts) > 50 and len(set(counts[-50:])) == 1

    until(is_steady, what="the number of descriptors stays")
    return counts[-1]


def limit_of_descriptors(pid):
    for line in pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines():
        if line.startswith("Max open files"):
            return int(line.split()[3])
    raise AssertionError("no such limit")


def resident_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("it is gone")


class Peer:
    def __init__(self, mode, port, source, seconds, count=0, token=None, is_gentle=False):
        environment = dict(os.environ, **({"FARCALL_TOKEN": token} if token else {}))
        # The test is of the port and not of the scheduler: floods take what processors are left.
        nice = [] if is_gentle else ["nice", "-n", "15"]
        self.mode = mode
        self.process = subprocess.Popen(
            [*nice, PEER, mode, str(port), source, str(seconds), str(count)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lines(self):
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, f"{self.mode} ended with {self.process.returncode}"
        return out.split("\n")[:-1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Flooded(link_proxy.LinkProxy):
    """Closes the first three connections before it has heard them, as a port may that is flooded."""

    closed = 0

    def _connect(self, client):
        if self.closed == 3:
            return super()._connect(client)
        self.closed += 1
        client.close()


class Unauthenticated(unittest.TestCase):
    def limits(self, threads, files):
        """Flags of Popen: another user, who has room for so many threads, and so many open files."""
        user = NOBODY if os.getuid() == 0 else os.getuid()
        most = tasks_of(user) + threads

        def become():
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, files), files))

        other = {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}
        return {"preexec_fn": become, **other}

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        return folder.name

    def serve(self, *flags, **options):
        home = self.folder()
        server = Server(
            "--grace",
            0,
            "--log-level",
            "error",
            *flags,
            token=TOKEN,
            environment={"HOME": home, "XDG_CACHE_HOME": home, "FARCALL_CACHE_DIR": home},
            **options,
        )
        self.addCleanup(server.stop)
        return server

    def peer(self, *arguments, **options):
        peer = Peer(*arguments, **options)
        self.addCleanup(peer.kill)
        return peer

    def judge(self, what, mode, port, seconds, windows=3):
        """An honest client, which gives up after the limit, gets in within it in one of so many
        windows: a busy host makes one of them slow, and a port that locks out makes all of them so."""
        for _ in range(windows):
            lines = self.peer(mode, port, OWN, seconds, token=TOKEN, is_gentle=True).lines()
            tries = [float(line) if line[0].isdigit() else float("inf") for line in lines]
            in_time = sum(took <= WITHIN_MS for took in tries)
            print(
                f"{what}: {len(tries)} tries, {in_time} within {WITHIN_MS} ms,"
                f" median {statistics.median(tries):.0f} ms",
                *set(line for line in lines if not line[0].isdigit()),
                flush=True,
            )
            if len(tries) >= 3 and in_time >= 0.8 * len(tries):
                return
        self.fail(f"{what}: {lines}")

    def flood(self, port, mode, seconds, honest="honest"):
        """The honest client's tries while that flood comes from its own address and from others."""
        windows = 3
        # They last longer than the honest client needs, and are ended with its last window.
        floods = [
            self.peer(mode, port, source, windows * seconds + 0.5, FLOODS[mode])
            for source in (OWN, *OTHERS)
        ]
        time.sleep(0.5)  # until it has begun
        self.judge(mode, honest, port, seconds, windows)
        for flood in floods:
            self.assertIn(flood.process.poll(), (None, 0), f"{mode}: a flood failed")
            flood.kill()

    def test_a_server_with_low_limits(self):
        server = self.serve(popen=self.limits(threads=150, files=400))
        held = Client(server.url, "hold", 1, token=TOKEN, stdin=subprocess.PIPE)
        self.addCleanup(held.kill)
        held.wait_line("held")
        pid = server.process.pid
        self.assertEqual(limit_of_descriptors(pid), 400, "its soft limit is raised to the hard one")
        self.judge("nobody else", "honest", server.port, 1)
        until(lambda: len(server.workers()) == 1, what="the honest client's sessions are over")
        before = settled_descriptors(pid)
        for mode in FLOODS:
            self.flood(server.port, mode, 2)
        self.assertIsNone(server.process.poll(), server.log_text())
        until(
            lambda: len(server.workers()) == 1 and descriptors(pid) <= before,
            what="all descriptors are back",
        )
        self.assertIsNone(held.process.poll(), held.err)

    def test_a_server_for_which_thousands_wait(self):
        server = self.serve()
        # Each may wait for 10 s: an instrumented server does not accept 3000 in that time.
        pid, count = server.process.pid, 300 if INSTRUMENTED else 3000
        self.judge("nobody else", "honest", server.port, 0.5)
        until(lambda: not server.workers(), what="the honest client's sessions are over")
        before, memory = settled_descriptors(pid), resident_bytes(pid)
        silent = [
            self.peer(mode, server.port, source, 60, count // 2, is_gentle=True)
            for mode, source in (("silence", OWN), ("half", OTHERS[0]))
        ]
        until(lambda: descriptors(pid) >= before + count, 60, "all wait")
        each = (resident_bytes(pid) - memory) / count
        print(f"{count} connections wait: {each:.0f} bytes each", flush=True)
        if not INSTRUMENTED:
            self.assertLess(each, 4096)
        self.judge("thousands wait", "honest", server.port, 1.5)
        for peer in silent:
            peer.kill()
        until(
            lambda: not server.workers() and descriptors(pid) <= before,
            what="all descriptors are back",
        )

    def test_a_client_that_is_closed_before_it_is_heard_tries_again(self):
        proxy = Flooded(("127.0.0.1", self.serve().port))
        self.addCleanup(proxy.close)
        client = run(proxy.url, "steps", 1, token=TOKEN)
        self.assertEqual((client.process.returncode, proxy.closed), (0, 3), client.err)

    @unittest.skipIf(
        not (BUILD / "libexec/farcall").is_dir()
        or not list((BUILD / "libexec/farcall").glob("*pool*")),
        "no pool in this build",
    )
    def test_a_pools_data_port_with_low_limits(self):
        pool = pool_case.Pool(
            pathlib.Path(self.folder(), "pool.db"),
            token=TOKEN,
            popen=self.limits(threads=150, files=400),
        )
        self.addCleanup(pool.stop)
        port, pid = int(pool.endpoint.rsplit(":", 1)[1]), pool.process.pid
        self.assertEqual(limit_of_descriptors(pid), 400, "its soft limit is raised to the hard one")
        self.judge("nobody else", "honest-pool", port, 0.5)
        before = settled_descriptors(pid)
        for mode in ("wrong-tokens", "connects", "silence", "half"):
            self.flood(port, mode, 1.5, honest="honest-pool")
        self.assertIsNone(pool.process.poll(), pool.log_text())
        until(lambda: descriptors(pid) <= before, what="all descriptors are back")


if __name__ == "__main__":
    unittest.main(verbosity=2)
