#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel, built from this build's install tree, installed by pip into an empty environment, used from there."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import harness  # noqa: E402

SOURCE = pathlib.Path(os.environ["FARCALL_SOURCE"])


def run(*command, **options):
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=240, **options
    )


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.scratch.name)
        cls.must("cmake", "--install", harness.BUILD, "--prefix", folder / "stage", "--strip")
        cls.wheel, *devices = cls.must(
            sys.executable,
            SOURCE / "deploy/wheel/build.py",
            "--stage",
            folder / "stage",
            "--target",
            folder,
        ).split()
        cls.device = devices[0] if devices else None
        cls.venv = folder / "venv"
        cls.must(sys.executable, "-m", "venv", cls.venv)
        cls.must(
            cls.venv / "bin/pip",
            "install",
            "-q",
            "--no-index",
            "--disable-pip-version-check",
            cls.wheel,
        )

    @classmethod
    def must(cls, *command):
        ran = run(*command)
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_it_keeps_the_promise_of_its_tag(self):
        ran = run(sys.executable, SOURCE / "deploy/wheel/audit.py", self.wheel)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_so_does_the_devices(self):
        if self.device is None:
            self.skipTest("this build has no CPU device")
        ran = run(sys.executable, SOURCE / "deploy/wheel/audit.py", self.device)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertLess(pathlib.Path(self.device).stat().st_size, 100 << 20)

    def test_pip_alone_gives_a_device(self):
        if self.device is None:
            self.skipTest("this build has no CPU device")
        venv = pathlib.Path(self.scratch.name) / "with-device"
        self.must(sys.executable, "-m", "venv", venv)
        self.must(
            venv / "bin/pip",
            "install",
            "-q",
            "--no-index",
            "--disable-pip-version-check",
            "--find-links",
            pathlib.Path(self.wheel).parent,
            "farcall[cpu]",
        )
        environment = {"PATH": "/usr/bin:/bin", "HOME": self.scratch.name}
        ran = run(
            venv / "bin/farcall",
            "run",
            "--",
            harness.BUILD / "examples/vector_add",
            env=environment,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("PASS vector_add", ran.stdout)
        dry = run(
            venv / "bin/farcall",
            "run",
            "--device",
            "dry",
            "--",
            harness.BUILD / "examples/vector_add",
            env=environment,
        )
        self.assertIn("dry", dry.stderr + dry.stdout)

    def test_it_holds_the_client_and_no_device(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        libraries = {name.split("/data/lib/farcall/")[1] for name in names if ".so" in name}
        tree = harness.BUILD / "lib/farcall"
        built = [
            path
            for folder in (tree, tree / "thin")
            for path in folder.glob("lib*.so*")
            if not path.is_symlink()
        ]
        self.assertEqual(libraries, {str(path.relative_to(tree)) for path in built})
        self.assertFalse([name for name in names if "/device/" in name])

    def test_a_program_runs_with_it_on_a_server(self):
        program = next(path for path in [harness.BUILD / "examples/vector_add"] if path.exists())
        with harness.Server() as server:
            ran = run(
                self.venv / "bin/farcall",
                "run",
                "--endpoint",
                server.url,
                "--",
                program,
                env={"PATH": "/usr/bin:/bin", "HOME": self.scratch.name},
            )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("PASS vector_add", ran.stdout)

    def test_python_says_where_it_is(self):
        ask = "import farcall; print(farcall.__version__, farcall.library_folder(), farcall.executable())"
        shown = run(self.venv / "bin/python", "-c", ask).stdout.split()
        self.assertEqual(
            shown[1:], [str(self.venv / "lib/farcall"), str(self.venv / "bin/farcall")]
        )
        version = run(self.venv / "bin/python", "-m", "farcall", "--version").stdout
        self.assertTrue(version.startswith(f"farcall {shown[0]} (commit "), version)


if __name__ == "__main__":
    missing = [name for name in ("wheel", "auditwheel") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: python package {missing[0]} is missing; scripts/test installs it")
        sys.exit(77)
    unittest.main()
