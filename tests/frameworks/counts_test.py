# SPDX-License-Identifier: Apache-2.0
"""What PyTorch costs on the wire: round trips and records, counted by the shim and by a proxy in the path, on the dry device.

FARCALL_BUILD names the build tree, FARCALL_VENV the environment (default torch-2.15-cu13).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import FARCALL, Server, link_proxy, proxy_of, run  # noqa: E402

EXAMPLES = HERE.parent.parent / "examples/pytorch"
VENV = os.environ.get("FARCALL_VENV", "torch-2.15-cu13")
MARKS = ("cuProfilerStart", "cuProfilerStop")
SKIPPED = 77


class Measured:
    """One run: what the shim wrote, what the proxy saw between the marks, what the program printed."""

    def __init__(self, python, server, *command, cache, **environment):
        proxy = proxy_of(server, mark_ids=link_proxy.call_ids(*MARKS))
        client = run(
            proxy.url,
            python,
            *command,
            environment={"FARCALL_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        )
        proxy.close()
        assert client.process.returncode == 0, "\n".join(client.out[-20:] + client.err[-20:])
        self.out, self.stats = "\n".join(client.out), client.stats()
        if len(proxy.marks) == 2:
            start, stop = proxy.marks
            self.waits = stop["wanted_replies"] - start["wanted_replies"]
            self.records = (
                stop["records_out"] - start["records_out"] - 1
            )  # without the record that ends the range

    def why(self):
        """Which calls waited in the range, for the message of a failure."""
        return {
            name: row["waited"]
            for name, row in self.stats["profiled"]["calls"].items()
            if row["waited"]
        }


class OnDryDevice(unittest.TestCase):
    """A server and a folder for caches, shared by a class's tests."""

    @classmethod
    def setUpClass(cls):
        cls.cache = tempfile.mkdtemp()
        cls.server = Server(device="dry")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()


class Counts(OnDryDevice):
    def measured(self, *command):
        return Measured(PYTHON, self.server, *command, cache=self.cache)

    def test_initialisation_with_warm_caches_takes_at_most_5_round_trips(self):
        for _ in range(2):
            start = self.measured(HERE / "programs/initialise.py")
        self.assertLessEqual(start.stats["round_trips"], 5, start.stats["calls"])

    def test_an_eager_gpt_step_waits_once_for_the_value_it_reads(self):
        gpt = self.measured(EXAMPLES / "gpt.py", "--steps", 40, "--range", 20, 40)
        self.assertEqual(gpt.stats["profiled"]["round_trips"], gpt.waits)
        self.assertLessEqual(gpt.waits, 20, gpt.why())

    # cuDNN's handle maps host memory: what kernels wrote there comes ahead of the wait's answer.
    def test_an_eager_cnn_step_waits_once_for_the_value_it_reads(self):
        cnn = self.measured(EXAMPLES / "cnn.py", "--steps", 40, "--range", 20, 40)
        self.assertEqual(cnn.stats["profiled"]["round_trips"], cnn.waits)
        self.assertLessEqual(cnn.waits, 20, cnn.why())

    def test_the_dry_device_tells_the_peak_that_pytorch_reserved(self):
        report = pathlib.Path(self.cache) / "report.json"
        program = (
            "import runpy, torch, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__'); "
            "print('reserved', torch.cuda.max_memory_reserved())"
        )
        done = subprocess.run(
            [
                FARCALL,
                "run",
                "--device",
                "dry",
                "--report",
                report,
                "--",
                PYTHON,
                "-c",
                program,
                EXAMPLES / "gpt.py",
                "--steps",
                "2",
                "--batch",
                "256",
                "--block",
                "256",
                "--width",
                "512",
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        reserved = int(done.stdout.split("reserved ")[-1])
        peak = max(device["peak_bytes"] for device in json.loads(report.read_text())["memory"])
        # cuBLAS takes 64 MiB a handle beside PyTorch's allocator, one for each thread that multiplies.
        self.assertGreaterEqual(peak, reserved)
        self.assertLess((peak - reserved) / reserved, 0.02, (peak, reserved))

    def test_a_replayed_step_is_one_record_and_no_wait(self):
        try:
            replays = self.measured(HERE / "programs/replays.py", 30)
        except AssertionError as error:
            if "cuStreamGetCaptureInfo_v3 is not supported" not in str(error):
                raise
            self.skipTest(
                "this build cannot tell a capture's nodes (cuStreamGetCaptureInfo), which PyTorch asks before it captures"
            )
        self.assertEqual(replays.waits, 0, replays.why())
        self.assertEqual(replays.records, 30)
        self.assertEqual(replays.stats["profiled"]["round_trips"], 0)
        self.assertEqual(replays.stats["profiled"]["posted"], 30)


if __name__ == "__main__":
    found = subprocess.run([HERE / "venv", "--path", VENV], capture_output=True, text=True)
    if found.returncode:
        print(f"skipped: {found.stderr.strip()}")
        sys.exit(SKIPPED)
    PYTHON = pathlib.Path(found.stdout.strip()) / "bin/python"
    unittest.main(verbosity=2, warnings="ignore")
