# SPDX-License-Identifier: Apache-2.0
"""A training step of PyTorch in containers that lack much of a machine (tests/session/container.py)."""

import sys

from support import FARCALL, PROGRAMS, FaultTest, Server, main, python

import container
from container import Container

CACHE_LINE = "the cache of kernels cannot be written"


class Containers(FaultTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(device="dry")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def goes(self, kind, **more):
        jail = Container(kind, stack_kib=1024)
        done = jail.run(
            FARCALL,
            "run",
            "--endpoint",
            self.server.url,
            "--",
            python(),
            PROGRAMS / "one_step.py",
            **more,
        )
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["right"]), done.stderr)
        return done.stderr

    def test_without_device_nodes_and_shared_memory(self):
        self.goes("no-devices")

    def test_read_only(self):
        # PyTorch itself wants a folder that it could write to, unless it is told of one that is there.
        self.assertEqual(self.goes("read-only", TORCHINDUCTOR_CACHE_DIR="/").count(CACHE_LINE), 1)

    def test_as_nobody(self):
        self.assertEqual(self.goes("nobody").count(CACHE_LINE), 1)

    def test_with_64_files(self):
        self.goes("few-files")

    def test_with_a_small_stack(self):
        self.goes("small-stack")


if __name__ == "__main__":
    why = container.available()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    main()
