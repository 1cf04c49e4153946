# SPDX-License-Identifier: Apache-2.0
"""The curl lines of docs/internals/pool.md, run as they stand against `farcall pool dev`."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import FARCALL

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/internals/pool.md"


class Examples(unittest.TestCase):
    def test_each_line_answers(self):
        lines = re.search(r"```sh\n(.*?)```", DOCS.read_text(), re.S).group(1).splitlines()
        self.assertGreater(len(lines), 10)
        process = subprocess.Popen(
            [FARCALL, "pool", "dev"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            # A sanitizer's runtime that is preloaded hangs curl.
            environment = {
                name: value for name, value in os.environ.items() if name != "LD_PRELOAD"
            }
            environment["POOL"] = re.search(r"REST on (\S+)", process.stdout.readline()).group(1)
            for line in lines:
                done = subprocess.run(
                    ["sh", "-c", line], capture_output=True, text=True, env=environment, timeout=60
                )
                self.assertEqual(done.returncode, 0, line)
                if line.endswith("/metrics"):
                    self.assertIn("farcall_pool_gpus 1\n", done.stdout)
                    continue
                answer = json.loads(done.stdout)
                self.assertFalse(set(answer) >= {"code", "message"}, (line, answer))
                environment.setdefault("CLAIM", answer.get("id", ""))
            self.assertIn(answer["state"], ("releasing", "released"))
        finally:
            process.terminate()
            process.wait(timeout=60)
            process.stdout.close()


if __name__ == "__main__":
    if shutil.which("curl") is None:
        sys.exit(77)
    unittest.main()
