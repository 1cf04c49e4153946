#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_size.py: the tree keeps the sizes, and what is too long is found, with its place."""

import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_size  # noqa: E402

BODY = "  work();\n" * 90


def findings(path, text):
    return list(check_size.findings(path, text))


class Size(unittest.TestCase):
    def test_the_tree_keeps_the_sizes(self):
        run = subprocess.run(
            [sys.executable, ROOT / "scripts/check_size.py"], capture_output=True, text=True
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_a_long_function_is_found_at_its_first_line(self):
        found = findings("a.cc", f"\nint Do(int a,\n       int b) {{\n{BODY}}}\n")
        self.assertEqual(len(found), 1)
        self.assertIn("a.cc:2: a function of 93 lines, 80 at most", found[0])

    def test_a_long_method_is_found_in_its_class(self):
        text = f"class A {{\n public:\n  int Do() {{\n{BODY.replace('  w', '    w')}  }}\n}};\n"
        self.assertEqual(len(findings("a.h", text)), 1)

    def test_a_class_may_be_longer_than_a_function(self):
        self.assertEqual(findings("a.h", "class A {\n" + "  int a();\n" * 100 + "};\n"), [])

    def test_a_long_function_of_python_is_found(self):
        self.assertIn("a.py:1", findings("a.py", f"def do():\n{BODY.replace(';', '')}")[0])

    def test_a_reason_above_it_lets_a_function_be_long(self):
        text = f"// Whatever.\n// Long: a flat switch.\nint Do() {{\n{BODY}}}\n"
        self.assertEqual(findings("a.cc", text), [])

    def test_a_reason_far_above_it_is_none(self):
        text = f"// Long: a flat switch.\n\nint Do() {{\n{BODY}}}\n"
        self.assertEqual(len(findings("a.cc", text)), 1)

    def test_a_long_file_is_found_unless_its_head_says_why(self):
        text = "int a;\n" * 501
        self.assertIn("a.cc: 501 lines, 500 at most", findings("a.cc", text)[0])
        self.assertEqual(findings("a.cc", "int a;\n" * 500), [])
        self.assertEqual(findings("a.cc", "// Long: a table.\n" + text), [])


if __name__ == "__main__":
    unittest.main()
