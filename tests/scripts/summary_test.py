#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test_summary.py: what it says of ctest's results."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import test_summary  # noqa: E402

RESULTS = """<testsuite>
<testcase name="session.a" time="2" status="run"><system-out>Ran 5 tests\nOK (skipped=2)</system-out></testcase>
<testcase name="session.b" time="1" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
<system-out>looking\nskipped: no prometheus here</system-out></testcase>
<testcase name="Unit.c" time="0" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>[ RUN      ] Unit.c\n/x/c.cc:12: Skipped\nno second device\n\n[  SKIPPED ] Unit.c (0 ms)</system-out></testcase>
<testcase name="unit.d" time="3" status="fail"><failure message=""/><system-out>expected 3, was 4</system-out></testcase>
<testcase name="unit.f" time="0" status="notrun"><skipped message="Unable to find executable"/>
<system-out>Unable to find executable: f</system-out></testcase>
<testcase name="unit.g" time="0" status="disabled"><system-out>Disabled</system-out></testcase>
</testsuite>"""
LABELS = {
    "session.a": "session",
    "session.b": "session",
    "Unit.c": "unit",
    "unit.d": "unit",
    "unit.f": "unit",
}


class Summary(unittest.TestCase):
    def setUp(self):
        cases = xml.etree.ElementTree.fromstring(RESULTS).findall("testcase")
        self.lines, self.failed = test_summary.summary(cases, LABELS)

    def row(self, label):
        return next(line for line in self.lines if line.startswith(label + " ")).split()[1:]

    def test_counts_by_label_and_in_all(self):
        self.assertEqual(self.row("session"), ["1", "1", "0", "1", "3"])
        self.assertEqual(self.row("unit"), ["2", "0", "2", "2", "3"])
        self.assertEqual(self.row("all"), ["3", "1", "2", "3", "6"])

    def test_says_why_something_was_skipped(self):
        self.assertIn("  session.b: no prometheus here", self.lines)
        self.assertIn("  Unit.c: no second device", self.lines)
        self.assertIn("  unit.g: disabled", self.lines)
        self.assertIn("passed, with checks skipped inside: session.a (2)", self.lines)

    def test_a_program_that_is_not_there_failed(self):
        self.assertEqual(self.failed, 2)
        self.assertIn("  unit.f", self.lines)
        self.assertIn("    | expected 3, was 4", self.lines)

    def test_of_a_long_output_the_first_failure_and_the_end_are_shown(self):
        output = ["noise"] * 50 + ["ERROR: test_x (X)", "cause"] + ["more"] * 100 + ["the end"]
        shown = test_summary.telling(output)
        self.assertEqual(shown[:2], ["ERROR: test_x (X)", "cause"])
        self.assertEqual((shown.count("..."), shown[-1]), (1, "the end"))
        self.assertEqual(len(shown), 2 * test_summary.SHOWN_LINES + 1)
        self.assertEqual(test_summary.telling(["a", "FAIL: b", "c"]), ["a", "FAIL: b", "c"])


if __name__ == "__main__":
    unittest.main()
