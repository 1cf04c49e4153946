#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/progress.sh: what is shown of a long command, on a terminal and elsewhere, and of one that failed."""

import os
import pathlib
import pty
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/progress.sh"


class Progress(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.log = os.path.join(self.folder.name, "log")

    def bash(self, body, **options):
        script = f"set -euo pipefail; source '{SCRIPT}'; log='{self.log}'\n{body}"
        return subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder.name,
            **options,
        )

    def read(self, text):
        with open(self.log, "w", encoding="utf-8") as log:
            log.write(text)
        return self.bash('_progress_read "$log"').stdout.strip()

    def test_reads_how_far_ninja_ctest_and_apt_are(self):
        self.assertEqual(
            self.read("[1/9 0.1s] Building a\n[7/9 12.034s] Building b\nwarning: c\n"), "7 9"
        )
        self.assertEqual(self.read("[3/9] Building a\n"), "3 9")
        self.assertEqual(
            self.read("      Start 2: x\n 12/1514 Test #12: wire.x ....   Passed\n"), "12 1514"
        )
        self.assertEqual(
            self.read("dlstatus:1:10.5:Retrieving\npmstatus:g++:45.2:Unpacking\n"), "45 100"
        )
        self.assertEqual(self.read("nothing to count\n"), "")

    def test_the_commands_output_is_in_the_log_and_its_status_is_told(self):
        ended = self.bash(
            'f() { echo "[1/2] one: warning: w"; echo bad >&2; return 3; }\n'
            'run_logged building "$log" f || echo "status $?"'
        )
        self.assertIn("status 3", ended.stdout)
        self.assertNotIn("warning", ended.stdout + ended.stderr)
        with open(self.log, encoding="utf-8") as log:
            self.assertEqual(log.read(), "[1/2] one: warning: w\nbad\n")

    def test_a_terminal_sees_one_line_that_is_written_over(self):
        shown = []
        body = (
            'f() { for i in 1 2 3; do echo "[$i/3] $i"; sleep 0.6; done; }\n'
            f"source '{SCRIPT}'; run_logged building '{self.log}' f"
        )

        def keep(descriptor):
            part = os.read(descriptor, 4096)
            shown.append(part)
            return part

        output = os.dup(1)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        try:
            status = pty.spawn(["bash", "-c", body], keep)
        finally:
            os.dup2(output, 1)
            os.close(output)
            os.close(quiet)
        text = b"".join(shown)
        self.assertEqual(status, 0)
        self.assertIn(b"building: 1 of 3", text)
        self.assertNotIn(b"\n", text)
        self.assertTrue(text.endswith(b"\r\x1b[K"), text)

    def failure(self, text):
        with open(self.log, "w", encoding="utf-8") as log:
            log.write(text)
        return self.bash('tell_failure "$log"').stderr

    def test_a_failure_shows_its_first_lines_the_remedy_and_the_log(self):
        compile_error = (
            "[1/9] x\n" * 50 + "FAILED: a.o\na.cc:1:1: error: expected ';'\n" + "[2/9] y\n" * 50
        )
        told = self.failure(compile_error)
        self.assertIn("FAILED: a.o\n    a.cc:1:1: error: expected ';'", told)
        self.assertIn("it goes on where it stopped", told)
        self.assertIn("The whole log: ", told)
        for text, remedy in (
            (
                "FAILED: a.o\nc++: fatal error: Killed signal terminated program cc1plus\n",
                "FARCALL_JOBS=1",
            ),
            ("FAILED: a.o\nerror: No space left on device\n", "The disk is full"),
            ("E: Failed to fetch http://deb.debian.org/x\n", "check the network"),
            (
                "FAILED: a.o\na.cc:1:1: fatal error: sodium.h: No such file or directory\n",
                "./scripts/setup",
            ),
        ):
            with self.subTest(text=text):
                self.assertIn(remedy, self.failure(text))


if __name__ == "__main__":
    unittest.main()
