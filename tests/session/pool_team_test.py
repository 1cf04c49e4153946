# SPDX-License-Identifier: Apache-2.0
"""The example of a team: a gang starts, a queue fills, and a victim is parked and comes back."""

import os
import pathlib
import re
import subprocess
import unittest

from harness import FARCALL

TEAM = pathlib.Path(__file__).parents[2] / "examples/pool/team.sh"


class Team(unittest.TestCase):
    def test_the_example_shows_it(self):
        env = dict(os.environ, PATH=f"{pathlib.Path(FARCALL).parent}:{os.environ['PATH']}")
        env.pop("FARCALL_TOKEN", None)
        pool = subprocess.Popen(
            [FARCALL, "pool", "dev", "--hosts", "2", "--min-run", "1", "--preempt-grace", "15"],
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        self.addCleanup(pool.wait, 30)
        self.addCleanup(pool.stdout.close)
        self.addCleanup(pool.terminate)
        ready = re.search(r"pool on (pool://\S+), REST on (http://\S+)", pool.stdout.readline())
        done = subprocess.run(
            [TEAM, *ready.groups()], capture_output=True, text=True, timeout=240, env=env
        )
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("export PET_NNODES='2'", done.stdout)
        self.assertRegex(said, r"g-\w+  bound  2 member\(s\)")
        queues = done.stdout.split("claim(s) wait, by fifo")
        self.assertEqual(len(queues), 3, said)
        self.assertIn("students", queues[1])
        self.assertRegex(queues[2], r"parked on dev")
        self.assertRegex(done.stdout, r"preempting: on dev\d?, which it leaves in \d+ s for claim")
        self.assertIn("whose project has not got what it deserves; it is parked there", done.stdout)
        self.assertRegex(done.stdout, r"parked: parked on dev\d?, \d+ MiB of that host's memory")
        self.assertIn("the pool takes the place of claim", done.stdout)
        self.assertRegex(done.stdout, r"\nstep \d+\n")
        self.assertIn("expected start: ", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
