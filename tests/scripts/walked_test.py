#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md follows one posted call: the files and functions that it names are there, and the way is short."""

import os
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
MAX_STEPS, MAX_FILES = 6, 8


def steps(page):
    """(files, functions) of each row of the table under "One call, walked"."""
    section = re.search(r"^## One call, walked$(.*?)^## ", page, re.M | re.S)[1]
    for row in re.findall(r"^\| \d+ \| (.*?) \| (.*?) \|$", section, re.M):
        files = re.findall(r"`([\w./-]+\.(?:cc|h))`", row[0])
        functions = [
            name for name in re.findall(r"`([\w.]+)`", row[1]) if not name.endswith((".cc", ".h"))
        ]
        yield files, functions


class WhereToLook(unittest.TestCase):
    def test_each_file_and_folder_is_there(self):
        page = (ROOT / "ARCHITECTURE.md").read_text()
        section = re.search(r"^## Where to look$(.*?)^## ", page, re.M | re.S)[1]
        names = re.findall(r"`([\w./-]+/[\w./-]*)`", section)
        self.assertGreater(len(names), 10)
        for name in names:
            self.assertTrue(
                (ROOT / name).exists(), f"ARCHITECTURE.md names {name}, which is not there"
            )


class OneCallWalked(unittest.TestCase):
    def setUp(self):
        self.steps = list(steps((ROOT / "ARCHITECTURE.md").read_text()))

    def text_of(self, name):
        path = BUILD / name if name.startswith("generated/") else ROOT / name
        self.assertTrue(path.is_file(), f"ARCHITECTURE.md names {name}, which is not there")
        return path.read_text()

    def test_has_few_steps_and_files(self):
        self.assertTrue(1 <= len(self.steps) <= MAX_STEPS, self.steps)
        files = {name for files, _ in self.steps for name in files}
        self.assertTrue(1 <= len(files) <= MAX_FILES, files)

    def test_each_step_names_functions_of_its_files(self):
        for files, functions in self.steps:
            self.assertTrue(files and functions, (files, functions))
            text = "\n".join(self.text_of(name) for name in files)
            for function in functions:
                called = re.search(rf"\b{re.escape(function)}\(", text)
                self.assertTrue(
                    called, f"ARCHITECTURE.md names {function}, which is not in {files}"
                )


if __name__ == "__main__":
    unittest.main()
