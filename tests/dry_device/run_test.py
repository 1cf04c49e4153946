# SPDX-License-Identifier: Apache-2.0
"""`farcall run --device dry`: a real program of machine code alone, the warnings, the report. FARCALL_BUILD names the tree."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
FARCALL = BUILD / "bin/farcall"
PROGRAM = BUILD / "tests/dry_device/program"
MIB = 1 << 20


def run(*command, device="dry", environment=None):
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        env = {name: value for name, value in os.environ.items() if not name.startswith("FARCALL_")}
        done = subprocess.run(
            [
                str(FARCALL),
                "run",
                "--device",
                device,
                "--report",
                report.name,
                "--",
                *map(str, command),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            env={**env, **(environment or {})},
        )
        text = pathlib.Path(report.name).read_text()
    return done, json.loads(text) if text else None


class DryRun(unittest.TestCase):
    def test_it_says_what_it_is(self):
        done, report = run(PROGRAM, "touch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(
            "device: Farcall dry device (H100 80GB profile), computes nothing", done.stdout
        )
        self.assertIn(
            "farcall: DRY DEVICE: no kernel is executed, nothing computed here is a result",
            done.stderr,
        )
        self.assertIn("none executed; what the program printed is no result", done.stderr)
        self.assertIs(report["executed"], False)

    def test_nothing_is_computed(self):
        done, _ = run(PROGRAM, "touch")
        self.assertIn(
            "element 0 is 7", done.stdout
        )  # what was copied there, not what the kernel writes

    def test_the_report_counts(self):
        done, report = run(PROGRAM, "touch")
        self.assertEqual(report["launches"], 3)
        self.assertEqual(report["by_api"]["cuMemAlloc_v2"]["calls"], 2)
        self.assertEqual(report["processes"], 1)
        self.assertGreaterEqual(report["bytes_up"], MIB)
        self.assertGreaterEqual(report["bytes_down"], MIB)
        waited = sum(row["waited"] for row in report["by_api"].values())
        self.assertGreaterEqual(report["waits"], waited)
        for cost in report["cost"]:
            seconds = report["waits"] * cost["rtt_ms"] / 1e3 + 8 * (
                report["bytes_up"] + report["bytes_down"]
            ) / (cost["gbit"] * 1e9)
            self.assertAlmostEqual(cost["seconds"], seconds)
        self.assertEqual(
            {(cost["rtt_ms"], cost["gbit"]) for cost in report["cost"]},
            {(rtt, gbit) for rtt in (0.1, 1, 10, 50) for gbit in (1, 10, 100)},
        )
        self.assertEqual(report["libraries"], [str(PROGRAM)])

    def test_peak_memory_is_what_was_allocated(self):
        # 40 GiB and 1 MiB, together; then another 10 GiB after the first were freed.
        _, report = run(PROGRAM, "peak")
        self.assertEqual(report["memory"][0]["peak_bytes"], 40 * 1024 * MIB + MIB)

    def test_processes_are_summed_however_they_end(self):
        done, report = run(PROGRAM, "fork")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(report["processes"], 3)
        self.assertEqual(report["launches"], 3)

    def test_the_exit_code_is_the_program_s(self):
        done, report = run(PROGRAM, "fail")
        self.assertEqual(done.returncode, 9)
        self.assertEqual(report["exit_code"], 9)

    def test_a_profile_that_is_not_there(self):
        done, _ = run(PROGRAM, "touch", device="dry:h1000")
        self.assertEqual(done.returncode, 125)
        self.assertIn("no such profile; there are a100,", done.stderr)

    def test_two_devices_of_another_card(self):
        done, _ = run(PROGRAM, "touch", device="dry:h200", environment={"FARCALL_DRY_DEVICES": "2"})
        self.assertIn("Farcall dry device (H200 141GB profile), computes nothing", done.stdout)
        self.assertIn("devices: 2", done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
