# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the whole driver API end no client, hang none, and are not taken for right where that was settled."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, Server  # noqa: E402

HEADER = os.environ["FARCALL_CUDA_HEADER"]
# Success with a wrong argument, judged in docs/results/2026-11-24-conformance.md.
JUDGED = {
    line.split("#")[0].strip() for line in (HERE / "sweep/judged.txt").read_text().splitlines()
} - {""}


class Sweep(unittest.TestCase):
    def test_wrong_arguments(self):
        with Server() as server:
            done = subprocess.run(
                [
                    sys.executable,
                    str(HERE / "sweep/sweep.py"),
                    str(BUILD / "lib/farcall/libcuda.so.1"),
                    "--header",
                    HEADER,
                ],
                env=dict(os.environ, FARCALL_ENDPOINT=server.url),
                capture_output=True,
                text=True,
                timeout=500,
            )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        calls = int(re.search(r"^(\d+) calls", done.stderr, re.M).group(1))
        self.assertGreater(calls, 2000)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        self.assertEqual(
            [row for row in rows if row[3] in ("ends the process", "does not return")], []
        )
        self.assertEqual(
            sorted({" ".join(row[:3]) for row in rows if row[3] == "success"} - JUDGED), []
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
