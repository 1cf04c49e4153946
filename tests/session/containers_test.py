# SPDX-License-Identifier: Apache-2.0
"""CUDA programs where much of a machine is missing: device nodes, shared memory, a writable root, rights, files, stack, /proc."""

import os
import subprocess
import sys
import unittest

import container
from container import Container, reach
from harness import BUILD, FARCALL, INSTRUMENTED, PROGRAMS, Server

EXAMPLES = (
    "vector_add",
    "vector_add_shared",
    "reduction_shuffle",
    "stream_overlap",
    "histogram_atomics",
)
CACHE_LINE = "the cache of kernels cannot be written"


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def right(self, done, command):
        self.assertEqual(done.returncode, 0, (command, done.stdout[-500:], done.stderr[-2000:]))

    def goes(self, kind):
        jail = Container(kind)
        lines = set()
        for name in EXAMPLES:
            done = jail.run(BUILD / "examples" / name, **reach(self.server.url))
            self.right(done, name)
            self.assertLessEqual(done.stderr.count(CACHE_LINE), 1, done.stderr)
            lines.update(line.split(" farcall-client: ")[-1] for line in done.stderr.splitlines())
        return lines

    def with_farcall_run(self, kind, *flags):
        """The launcher too, with what it preloads, and with a server of its own inside."""
        jail = Container(kind)
        for target in (("--endpoint", self.server.url), ("--device", "cpu"), ("--device", "dry")):
            done = jail.run(
                FARCALL, "run", *target, "--", PROGRAMS / "steps", 3 if target[1] != "dry" else 0
            )
            self.right(done, target)
            self.assertIn("right", done.stdout)

    def test_without_device_nodes_and_shared_memory(self):
        self.assertEqual(self.goes("no-devices"), set())
        self.with_farcall_run("no-devices")
        # To a program that looks for a device node there is one.
        looks = ("-c", "import os; print(os.path.exists('/dev/nvidia0'))")
        done = Container("no-devices").run(
            FARCALL, "run", "--endpoint", self.server.url, "--", sys.executable, *looks
        )
        self.assertEqual(done.stdout, "True\n", done.stderr)

    def test_no_connection_is_lost_at_the_start(self):
        """A lane may come before the worker has done the rest of a session's start: it is kept."""
        for _ in range(30):
            done = subprocess.run(
                [BUILD / "examples/vector_add"],
                env=dict(os.environ, **reach(self.server.url)),
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.right(done, "vector_add")
            self.assertNotIn("closed by the peer", done.stderr)

    def test_read_only(self):
        lines = self.goes("read-only")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(CACHE_LINE, lines.pop())
        jail = Container("read-only")
        done = jail.run(
            BUILD / "examples/vector_add",
            **reach(self.server.url),
            FARCALL_STATS="/stats.json",
            FARCALL_LOG_FILE="/log",
        )
        self.right(done, "files that cannot be written")
        for target in (("--endpoint", self.server.url), ("--device", "cpu")):
            self.right(jail.run(FARCALL, "run", *target, "--", PROGRAMS / "steps", 3), target)
        done = jail.run(
            FARCALL, "run", "--device", "dry", "--", PROGRAMS / "steps", 0
        )  # its report wants a folder
        self.assertEqual(done.returncode, 125)
        self.assertIn("no folder for the report", done.stderr)

    def test_as_nobody(self):
        lines = self.goes("nobody")
        self.assertEqual(len(lines), 1, lines)
        self.with_farcall_run("nobody")

    def test_with_64_files(self):
        self.goes("few-files")
        self.with_farcall_run("few-files")

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's runtime wants more stack")
    def test_with_a_small_stack(self):
        self.goes("small-stack")
        self.with_farcall_run("small-stack")

    @unittest.skipIf(INSTRUMENTED, "a sanitizer's runtime reads /proc")
    def test_without_proc(self):
        """Programs and the launcher need none of it; a server does, and says so."""
        self.goes("no-proc")
        jail = Container("no-proc")
        self.right(
            jail.run(FARCALL, "run", "--endpoint", self.server.url, "--", PROGRAMS / "steps", 1),
            "farcall run",
        )
        done = jail.run(FARCALL, "run", "--device", "cpu", "--", PROGRAMS / "steps", 1)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("private server", done.stderr)


if __name__ == "__main__":
    why = container.available()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main(verbosity=2)
