#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/check_tidy.py: what of clang-tidy's output counts."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import check_tidy  # noqa: E402

OURS = f"{check_tidy.ROOT}/quota/x.cc:1:2: warning: bad [check]\n  code\n"
MADE = f"{check_tidy.BUILD}/generated/proto/p.pb.h:3:4: warning: worse [check]\n  more\n"


class Findings(unittest.TestCase):
    def test_a_run_without_findings_has_none(self):
        self.assertEqual(check_tidy.own_findings(""), "")
        self.assertEqual(check_tidy.own_findings("42 warnings generated.\n"), "")

    def test_what_the_build_makes_is_left_out(self):
        self.assertEqual(check_tidy.own_findings(MADE), "")
        self.assertEqual(check_tidy.own_findings(MADE + OURS), OURS)
        self.assertEqual(check_tidy.own_findings(OURS + MADE + OURS), OURS + OURS)


if __name__ == "__main__":
    unittest.main()
