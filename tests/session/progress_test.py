#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The line that a program's terminal shows while it waits: a budget makes its copies slow."""

import os
import pathlib
import pty
import re
import subprocess
import tempfile
import unittest

from harness import BUILD, Server

LINE = re.compile(r"\rfarcall: (copying (?:to|from) the device), (\d+) of 24 MiB, \d+ s\x1b\[K")
CLEARED = "\r\x1b[K"


class Progress(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name)

    def copy(self, rate, **environment):
        """What a copy of 24 MiB up and down wrote to a terminal that is its stderr; its stdout."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen(
            [BUILD / "tests/session/big_copy", "24"],
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            env={
                **os.environ,
                "TERM": "xterm",
                "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
                "FARCALL_ENDPOINT": self.server.url,
                "FARCALL_CACHE_DIR": str(self.cache),
                "FARCALL_NET": rate,
                **environment,
            },
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                got = os.read(master, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not got:
                break
            shown += got
        out, _ = process.communicate()
        self.assertEqual(process.returncode, 0, shown)
        return shown.decode(), out

    def test_a_slow_copy_shows_how_far_it_is_and_leaves_nothing(self):
        shown, out = self.copy("12MB/s")
        self.assertEqual(out, "right\n", "stdout is the program's own")
        self.assertEqual(
            {step for step, _ in LINE.findall(shown)},
            {"copying to the device", "copying from the device"},
            shown,
        )
        self.assertTrue(shown.endswith(CLEARED), shown)
        self.assertEqual(LINE.sub("", shown).replace(CLEARED, ""), "", "nothing else")

    def test_it_can_be_turned_off(self):
        for environment in ({"FARCALL_PROGRESS": "off"}, {"FARCALL_LOG": "off"}, {"TERM": "dumb"}):
            shown, out = self.copy("12MB/s", **environment)
            self.assertEqual((shown, out), ("", "right\n"), environment)

    def test_another_word_is_told_of(self):
        shown, out = self.copy("1GB/s", FARCALL_PROGRESS="yes")
        self.assertIn("FARCALL_PROGRESS=yes must be auto or off", shown)
        self.assertEqual(out, "right\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
