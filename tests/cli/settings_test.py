# SPDX-License-Identifier: Apache-2.0
"""A settings file that cannot be used is refused in one line that names the file and the line in it, by every command."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import FARCALL  # noqa: E402

# What is wrong, the file, and the line at which it shows.
BROKEN = [
    ("an unquoted URL", b"endpoint = tcp://gpu-host:7717\n", 1),
    ("a text without its end", b'mem = "4GiB"\nendpoint = "tcp://gpu-host:7717\n', 2),
    ("a value that is missing", b"endpoint =\n", 1),
    ("a table without its bracket", b"[endpoint\n", 1),
    ("a setting that is there twice", b'mem = "1GiB"\nmem = "2GiB"\n', 2),
    ("bytes that are no UTF-8", b'endpoint = "\xff"\n', 1),
]


class Settings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "farcall").mkdir()
        self.file = self.folder / "farcall/config.toml"

    def farcall(self, *arguments):
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")} | {
            "XDG_CONFIG_HOME": str(self.folder)
        }
        return subprocess.run(
            [FARCALL, *arguments], env=env, capture_output=True, text=True, timeout=60
        )

    def assert_refused(self, done, code, line):
        told = [
            text
            for text in (done.stdout + done.stderr).splitlines()
            if f"{self.file}:{line}: " in text
        ]
        self.assertEqual((done.returncode, len(told)), (code, 1), (done.stdout, done.stderr))
        return told[0]

    def test_a_client_refuses_what_it_cannot_read(self):
        for what, text, line in BROKEN:
            self.file.write_bytes(text)
            with self.subTest(what):
                self.assert_refused(self.farcall("run", "--", "true"), 125, line)
                self.assert_refused(self.farcall("devices"), 1, line)
                self.assert_refused(self.farcall("doctor"), 1, line)

    def test_a_server_refuses_what_it_cannot_read(self):
        for what, text, line in BROKEN:
            self.file.write_bytes(text)
            with self.subTest(what):
                done = self.farcall("serve", "--config", str(self.file))
                self.assertTrue(self.assert_refused(done, 2, line).startswith("farcall serve: "))
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_what_a_file_says_does_not_break_the_line(self):
        self.file.write_text('"end\\npoint\\u001b[2J" = 1\n')
        for command in (("run", "--", "true"), ("devices",), ("serve", "--config", str(self.file))):
            with self.subTest(command):
                done = self.farcall(*command)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("end\\npoint\\x1b[2J", done.stderr)


if __name__ == "__main__":
    unittest.main()
