#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_format.py: braces around a body of one statement are found and removed, and that
changes nothing else."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

BRACES = """\
int Count(const std::vector<int>& all) {
  int count = 0;
  for (int one : all) {
    count += one;
  }
  if (count > 9) {
    // Why it is so.
    return 9;
  }
  Visit(all, [](int one) {
    if (one > 3) {
      Note(one);
    }
  });
  return count;
}
"""
WITHOUT = """\
int Count(const std::vector<int>& all) {
  int count = 0;
  for (int one : all) count += one;
  if (count > 9) {
    // Why it is so.
    return 9;
  }
  Visit(all, [](int one) {
    if (one > 3) Note(one);
  });
  return count;
}
"""


@unittest.skipIf(shutil.which("clang-format-14") is None, "no clang-format-14")
class Format(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = pathlib.Path(folder.name, "count.cc")

    def check(self, *flags):
        program = [sys.executable, ROOT / "scripts/check_format.py", *flags, self.source]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout

    def test_braces_around_one_statement_are_found_and_removed(self):
        self.source.write_text(BRACES)
        self.assertEqual(self.check(), f"{self.source}\n")
        self.assertEqual(self.check("--fix"), "")
        self.assertEqual(self.source.read_text(), WITHOUT)
        self.assertEqual(self.check(), "")

    def test_what_is_not_laid_out_so_is_found(self):
        self.source.write_text(WITHOUT.replace("int count", "int  count"))
        self.assertEqual(self.check(), f"{self.source}\n")


if __name__ == "__main__":
    unittest.main()
