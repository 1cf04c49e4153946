# SPDX-License-Identifier: Apache-2.0
"""Answers of libraries kept for later runs: a second run asks nothing again, gives the same values, and depends on no file being good."""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import cudnn_test  # noqa: E402
from harness import BUILD, waits_but_for_memory  # noqa: E402

PROGRAM = """
def built(channels):
    status, plan = planned(0, lambda own: plain(own, channels))
    return status, get(plan, 402, INT64, 1)
shapes = [built(2 + i) for i in range(6)]
status, plan = planned(0)
ran = run(plan, x, number, y)
check(cuda.cuCtxSynchronize())
print(json.dumps([shapes, status, ran]))
"""
WANTED = [[[0, [0, 1, [64]]]] * 6, 0, 0]


class Kept(unittest.TestCase):
    setUpClass = classmethod(cudnn_test.Backend.setUpClass.__func__)
    tearDownClass = classmethod(cudnn_test.Backend.tearDownClass.__func__)
    run_client = cudnn_test.Backend.run_client

    def setUp(self):
        self.cache = tempfile.TemporaryDirectory()
        self.addCleanup(self.cache.cleanup)

    def waits(self, **more):
        found, _, counts = self.run_client(
            PROGRAM, **{"FARCALL_CACHE_DIR": self.cache.name, "FARCALL_LIBRARY_CACHE": "1", **more}
        )
        self.assertEqual(found, WANTED)
        return waits_but_for_memory(counts)

    def files(self):
        return list(pathlib.Path(self.cache.name, "libraries").iterdir())

    def test_a_second_run_asks_nothing_again(self):
        first, second = self.waits(), self.waits()
        self.assertEqual(second, self.waits())
        # What is left: the session's start, the library, a handle.
        self.assertLess(second, first - 20)
        self.assertEqual(self.waits(FARCALL_LIBRARY_CACHE="0"), first)

    def test_what_is_damaged_is_asked_again_and_kept_anew(self):
        first, second = self.waits(), self.waits()
        (file,) = self.files()
        whole = file.read_bytes()
        for damage in (
            whole[:-3],
            bytes([whole[0] ^ 0xFF]) + whole[1:],
            whole[:20] + b"\0" * 40 + whole[60:],
            b"",
            b"\xff" * 100,
        ):
            file.write_bytes(damage)
            self.assertGreater(self.waits(), second)
            self.assertEqual(self.waits(), second)
        self.assertLess(second, first)

    def test_a_file_that_others_may_write_is_not_believed(self):
        first = self.waits()
        (file,) = self.files()
        file.chmod(0o666)
        self.assertEqual(self.waits(), first)

    def test_environments_have_files_of_their_own(self):
        first = self.waits()
        self.assertEqual(self.waits(NVIDIA_TF32_OVERRIDE="0"), first)
        self.assertEqual(len(self.files()), 2)

    def test_a_folder_that_cannot_be_written_is_one_warning(self):
        pathlib.Path(self.cache.name, "libraries").write_text("")
        first = self.waits()
        self.assertEqual(self.waits(), first)

    def test_many_write_at_once(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        env |= {
            "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
            "FARCALL_ENDPOINT": self.server.url,
            "PYTHONPATH": str(HERE / "programs"),
            "FARCALL_CACHE_DIR": self.cache.name,
        }

        def start(_):
            return subprocess.run(
                [sys.executable, "-c", cudnn_test.PRELUDE + PROGRAM],
                env=env,
                capture_output=True,
                text=True,
                timeout=200,
            )

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for done in pool.map(start, range(4)):
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertEqual(json.loads(done.stdout.splitlines()[-1]), WANTED)
        self.assertEqual(self.waits(), self.waits())


if __name__ == "__main__":
    unittest.main()
