# SPDX-License-Identifier: Apache-2.0
"""What a token costs on the wire when transformers decodes, on the dry device; as counts_test.py, in its own environment."""

import pathlib
import subprocess
import sys
import unittest

from counts_test import SKIPPED, Measured, OnDryDevice

HERE = pathlib.Path(__file__).resolve().parent
VENV = "transformers-5"


class Decoding(OnDryDevice):
    def measured(self, script, check):
        return Measured(
            PYTHON,
            self.server,
            HERE / "transformers" / script,
            check,
            cache=self.cache,
            PYTHONPATH=str(HERE / "imports"),
            FARCALL_SUBJECT_DEVICE="dry",
        )

    def test_a_replayed_decoding_step_is_one_record_and_no_wait(self):
        replayed = self.measured("graphs.py", "what_a_replayed_token_costs")
        self.assertEqual((replayed.waits, replayed.records), (0, 32), replayed.why())

    def test_a_token_of_generate_waits_for_the_two_values_it_reads(self):
        greedy = self.measured("generate.py", "what_a_token_costs")
        # Whether the mask is all ones, and whether generation has ended; 5 at its start.
        self.assertLessEqual(greedy.waits, 2 * 24 + 5, greedy.why())
        self.assertGreaterEqual(greedy.waits, 24)  # or it was not generation that was counted


if __name__ == "__main__":
    found = subprocess.run([HERE / "venv", "--path", VENV], capture_output=True, text=True)
    if found.returncode:
        print(f"skipped: {found.stderr.strip()}")
        sys.exit(SKIPPED)
    PYTHON = pathlib.Path(found.stdout.strip()) / "bin/python"
    unittest.main(verbosity=2, warnings="ignore")
