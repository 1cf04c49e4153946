# SPDX-License-Identifier: Apache-2.0
"""Completions and man pages say what the commands' own help says."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import FARCALL  # noqa: E402

COMPLETE = """
source <("$0" completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_farcall
printf '%s\\n' "${COMPREPLY[@]}"
"""


def farcall(*words):
    return subprocess.run([FARCALL, *words], capture_output=True, text=True, timeout=120)


class Completion(unittest.TestCase):
    def complete(self, *words):
        done = subprocess.run(
            ["bash", "-c", COMPLETE, FARCALL, "farcall", *words],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_knows_commands_and_flags(self):
        self.assertEqual(self.complete("ser"), ["serve"])
        self.assertEqual(self.complete("run", "--endp"), ["--endpoint"])
        self.assertEqual(self.complete("run", "--device", "c"), ["cuda", "cpu"])
        self.assertEqual(self.complete("run", "--", "--endp"), [])  # of the program

    def test_each_flag_of_the_help_is_completed(self):
        for command in ("run", "serve", "devices", "doctor"):
            words = self.complete(command, "--")
            told = [
                line.split()[0]
                for line in farcall(command, "--help").stdout.splitlines()
                if line.startswith("  --")
            ]
            self.assertGreater(len(told), 2)
            self.assertLessEqual(
                {name for names in told for name in names.split(",") if name.startswith("--")},
                set(words),
            )

    def test_other_shells_read_theirs(self):
        for shell in ("zsh", "fish"):
            done = farcall("completion", shell)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("--endpoint" if shell == "zsh" else "-l endpoint", done.stdout)
            if program := shutil.which(shell):
                with tempfile.NamedTemporaryFile("w", suffix=f".{shell}") as file:
                    file.write(done.stdout)
                    file.flush()
                    checked = subprocess.run(
                        [program, "-n", file.name], capture_output=True, text=True, timeout=60
                    )
                    self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertEqual(farcall("completion", "csh").returncode, 2)

    def test_man_pages_hold_the_help(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(farcall("man", folder).returncode, 0)
            pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
            self.assertLessEqual(
                {"farcall.1", "farcall-run.1", "farcall-serve.1", "farcall-token-new.1"}, set(pages)
            )
            for name, page in pages.items():
                self.assertTrue(page.startswith(".TH farcall"), name)
                if reader := shutil.which("groff"):
                    read = subprocess.run(
                        [reader, "-man", "-Tascii", "-ww"],
                        input=page,
                        capture_output=True,
                        text=True,
                        timeout=60,
                    )
                    self.assertEqual((read.returncode, read.stderr), (0, ""), name)
                    self.assertGreater(len(read.stdout), 200)
            self.assertIn(r"\-\-endpoint", pages["farcall-run.1"])


if __name__ == "__main__":
    unittest.main()
