# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command line: one line that names the command, the value and what would be right, and exit code 2."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import BUILD, FARCALL  # noqa: E402

HAS_CONTROL = (BUILD / "libexec/farcall/farcall-control").exists()
HAS_POOL = (BUILD / "libexec/farcall/farcall-pool").exists()
PART = "write a part of a device as 30%, 12.5% or 0.3"
# Command line, who speaks, what the line says.
WRONG = [
    ("serv", "farcall", "'serv' is no command; there are serve, run, env"),
    ("--sahre", "farcall", "'--sahre' is no flag"),
    ("run", "farcall run", "command is required"),
    ("run --share 120% -- true", "farcall run", f"'120%': {PART}"),
    ("run --limit=-5 -- true", "farcall run", f"'-5': {PART}"),
    ("run --mem lots -- true", "farcall run", "size 'lots': write it as 4GiB"),
    ("run --net 5 -- true", "farcall run", "'5': write 100MB/s"),
    ("run --priority urgent -- true", "farcall run", "urgent not in {high,normal,low}"),
    ("run --count 65 -- true", "farcall run", "65 not in range"),
    (
        "serve --listen here",
        "farcall serve",
        'endpoint "here": has no transport; write tcp://host:port',
    ),
]
WRONG_CONTROL = [
    ("quota", "farcall quota", "a command is missing; there are set"),
    ("quota set", "farcall quota set", "vgpu is required"),
    ("quota set a --share 1.5", "farcall quota set", f"'1.5': {PART}"),
    ("top --often", "farcall top", "not expected: --often"),
]
WRONG_POOL = [
    ("pool", "farcall pool", "a command is missing; there are serve, dev, request"),
    ("pool lend", "farcall pool", "'lend' is no command"),
    ("pool request --share 3/4", "farcall pool request", f"'3/4': {PART}"),
    ("pool set c-1 --net fast", "farcall pool set", "'fast': write 100MB/s"),
]


def farcall(line):
    return subprocess.run([FARCALL, *line.split()], capture_output=True, text=True, timeout=60)


class Usage(unittest.TestCase):
    def test_the_version_names_release_commit_and_wire(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        release = re.search(
            r"^project\(farcall VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text(), re.M
        ).group(1)
        wire = ".".join(
            re.search(rf"kWire{part} = (\d+);", (root / "proto/wire.h").read_text()).group(1)
            for part in ("Major", "Minor")
        )
        done = farcall("--version")
        self.assertRegex(
            done.stdout,
            rf"^farcall {re.escape(release)} \(commit ([0-9a-f]{{12}}|unknown), wire {re.escape(wire)}\)\n$",
        )

    def test_what_is_wrong_is_said_in_one_line(self):
        for line, speaker, says in WRONG + HAS_CONTROL * WRONG_CONTROL + HAS_POOL * WRONG_POOL:
            with self.subTest(line=line):
                done = farcall(line)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertTrue(done.stderr.startswith(speaker + ": "), done.stderr)
                self.assertIn(says, done.stderr)

    def test_a_command_line_without_a_command_shows_the_help(self):
        done = farcall("")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("Subcommands:", done.stdout)
        self.assertIn("  serve ", done.stdout)

    def test_help_fits_a_terminal_of_100_columns(self):
        for line in (
            ("serve", "run")
            + HAS_CONTROL * ("top", "quota set")
            + HAS_POOL * ("pool serve", "pool request")
        ):
            done = farcall(f"{line} --help")
            self.assertEqual(
                [
                    text
                    for text in done.stdout.splitlines()
                    if len(text) > 100 and "Example" not in text
                ],
                [],
                line,
            )

    def test_the_help_of_run_is_grouped(self):
        shown = farcall("run --help").stdout
        places = [
            shown.index(f"\n{text}")
            for text in (
                "Where:\n  --endpoint",
                "How much:\n  --mem",
                "What to replace:\n  --driver",
                "Reports:\n  --log",
            )
        ]
        self.assertEqual(places, sorted(places))

    def test_devices_that_are_not_there_are_named(self):
        done = farcall("serve --device cpu --gpus 9")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(
            "no device of --gpus '9': cpu: cuInit: CUDA_ERROR_NO_DEVICE (100)", done.stderr
        )

    def test_a_device_that_does_not_start_is_told_of_once_with_its_cause(self):
        cause = "cpu: FARCALL_CPU_PROFILE=nonsense: no such profile; there are "
        done = farcall("serve --device cpu:nonsense --listen tcp://127.0.0.1:0")
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertRegex(done.stderr, rf"\Afarcall serve: no device: {cause}.*\n\Z")
        done = farcall("run --device cpu:nonsense -- true")
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertRegex(
            done.stderr,
            rf"\Afarcall run: the private server did not start: no device: {cause}.*\n\Z",
        )

    def test_a_private_server_s_refusal_is_one_line(self):
        done = farcall("run --device cpu --mem 900GiB -- true")
        self.assertEqual(done.returncode, 125)
        self.assertRegex(
            done.stderr,
            r"\Afarcall run: the private server did not start: --mem 966367641600: .*\n\Z",
        )

    @unittest.skipUnless(HAS_POOL, "needs the pool")
    def test_a_pool_that_is_not_there(self):
        done = farcall("pool list --pool http://127.0.0.1:9")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(
            "pool http://127.0.0.1:9: cannot connect (is `farcall pool serve` running there?)",
            done.stderr,
        )


if __name__ == "__main__":
    unittest.main()
