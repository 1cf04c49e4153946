#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Getting into thin mode: which file answers a program's request for one of CUDA's libraries, and what `farcall doctor` says of it.

The tree is made of stand-ins, so that a library can be there or not; the auditor, `farcall` and libcuda.so.1 are the built ones."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
import harness  # noqa: E402

ASKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW);
    const char* (*name)(void) = library ? (const char* (*)(void))dlsym(library, "whose") : 0;
    puts(library == 0 ? "not found" : name ? name() : "another");
  }
}
"""
NVIDIA = [
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcusparse.so.12",
    "libcusolver.so.12",
    "libcudnn.so.9",
    "libcudnn_ops.so.9",
    "libcufft.so.12",
    "libcudnn.so.8",
    "libcudnn_ops.so.8",
]
OURS = ["libcublas.so.13", "libcublasLt.so.13", "libcusparse.so.12", "libcudnn.so.9"]


class EntryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.tree, cls.nvidia = cls.folder / "tree", cls.folder / "nvidia"
        cls.thin = cls.tree / "lib/farcall/thin"
        for folder in (cls.tree / "bin", cls.thin, cls.nvidia):
            folder.mkdir(parents=True)
        shutil.copy(harness.FARCALL, cls.tree / "bin")
        for name in ("libcuda.so.1", "libfarcall_audit.so"):
            shutil.copy(harness.BUILD / "lib/farcall" / name, cls.tree / "lib/farcall")
        (cls.tree / "lib/farcall/device").symlink_to(harness.BUILD / "lib/farcall/device")
        for name in NVIDIA:
            cls.compile(
                cls.nvidia / name,
                f'const char* whose(void) {{ return "nvidia {name}"; }}',
                "-shared",
                f"-Wl,-soname,{name}",
            )
        for name in OURS:
            cls.compile(
                cls.thin / name,
                f'const char* whose(void) {{ return "ours {name}"; }}',
                "-shared",
                f"-Wl,-soname,{name}",
            )
        (cls.nvidia / "libcublas.so").symlink_to("libcublas.so.13")
        (cls.nvidia / "libcublas.so.13.1.0").symlink_to("libcublas.so.13")
        cls.asks = cls.compile(
            cls.folder / "asks", ASKS, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{cls.nvidia}"
        )

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def compile(cls, output, text, *flags):
        subprocess.run(
            [os.environ["FARCALL_CC"], "-x", "c", "-", "-o", output, *flags],
            input=text,
            text=True,
            check=True,
        )
        return str(output)

    def farcall(self, *words, **environment):
        return subprocess.run(
            [self.tree / "bin/farcall", *words],
            capture_output=True,
            text=True,
            timeout=120,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
        )

    def answers(self, *names, flags=("--thin",), **environment):
        ran = self.farcall(
            "run",
            "--no-check",
            "--endpoint",
            "tcp://127.0.0.1:1",
            *flags,
            "--",
            self.asks,
            *map(str, names),
            **environment,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()

    def test_ours_answers_past_an_rpath_and_an_absolute_path(self):
        self.assertEqual(
            self.answers("libcublas.so.13", "libcublasLt.so.13"),
            ["ours libcublas.so.13", "ours libcublasLt.so.13"],
        )
        self.assertEqual(self.answers(self.nvidia / "libcublas.so.13"), ["ours libcublas.so.13"])

    def test_other_names_of_a_library_are_seen_through(self):
        for name in ("libcublas.so", "libcublas.so.13.1.0"):
            self.assertEqual(self.answers(self.nvidia / name), ["ours libcublas.so.13"], name)

    def test_the_parts_of_cudnn_9_are_in_ours(self):
        self.assertEqual(self.answers(self.nvidia / "libcudnn_ops.so.9"), ["ours libcudnn.so.9"])
        self.assertEqual(
            self.answers("libcudnn_ops.so.9", "libcudnn.so.9"), ["ours libcudnn.so.9"] * 2
        )
        self.assertEqual(
            self.answers("libcudnn_ops.so.8", "libcudnn.so.8"),
            ["nvidia libcudnn_ops.so.8", "nvidia libcudnn.so.8"],
        )

    def test_what_is_not_there_stays_the_programs_own(self):
        self.assertEqual(self.answers("libcufft.so.12"), ["nvidia libcufft.so.12"])

    def test_a_group_switches_whole_or_not_at_all(self):
        theirs = ["nvidia libcusparse.so.12", "nvidia libcusolver.so.12"]
        self.assertEqual(self.answers("libcusparse.so.12", "libcusolver.so.12"), theirs)
        # Without an RPATH LD_LIBRARY_PATH would lead to ours.
        plain = self.compile(self.folder / "plain", ASKS)
        ran = self.farcall(
            "run",
            "--no-check",
            "--endpoint",
            "tcp://127.0.0.1:1",
            "--thin",
            "--",
            plain,
            "libcusparse.so.12",
            LD_LIBRARY_PATH=str(self.nvidia),
        )
        self.assertEqual(ran.stdout, "nvidia libcusparse.so.12\n", ran.stderr)

    def test_a_library_left_alone_is_passed_over_whatever_failed_before(self):
        plain = self.compile(self.folder / "plain", ASKS)
        ran = self.farcall(
            "run",
            "--no-check",
            "--endpoint",
            "tcp://127.0.0.1:1",
            "--thin",
            "--",
            plain,
            "/dev/null/library",
            "libcusparse.so.12",
            LD_LIBRARY_PATH=str(self.nvidia),
        )
        self.assertEqual(ran.stdout, "not found\nnvidia libcusparse.so.12\n", ran.stderr)

    def test_without_thin_or_the_auditor_the_programs_own_come(self):
        for flags in ([], ["--driver"], ["--thin", "--no-audit"]):
            self.assertEqual(
                self.answers("libcublas.so.13", flags=flags), ["nvidia libcublas.so.13"], flags
            )

    def test_driver_mode_inside_thin_mode_is_driver_mode(self):
        ran = self.farcall(
            "run",
            "--no-check",
            "--endpoint",
            "tcp://127.0.0.1:1",
            "--thin",
            "--",
            self.tree / "bin/farcall",
            "run",
            "--no-check",
            "--",
            self.asks,
            "libcublas.so.13",
        )
        self.assertEqual(ran.stdout, "nvidia libcublas.so.13\n", ran.stderr)

    def test_farcall_itself_gets_the_real_libraries(self):
        other = self.folder / "other"
        shutil.copytree(self.tree, other, symlinks=True)
        shutil.copy(self.asks, other / "bin/farcall")
        shutil.copy(self.asks, other / "bin/program")
        for program, want in (("program", "ours"), ("farcall", "nvidia")):
            ran = subprocess.run(
                [other / "bin" / program, "libcublas.so.13"],
                capture_output=True,
                text=True,
                env={
                    "FARCALL_THIN": "1",
                    "LD_AUDIT": str(other / "lib/farcall/libfarcall_audit.so"),
                },
            )
            self.assertEqual(ran.stdout, f"{want} libcublas.so.13\n", ran.stderr)

    def test_the_search_path_alone_is_enough_without_an_rpath(self):
        plain = self.compile(self.folder / "plain", ASKS)
        line = next(
            line
            for line in self.farcall("env", "--thin").stdout.splitlines()
            if "LD_LIBRARY_PATH" in line
        )
        path = line.split("=")[1].strip("'")
        self.assertEqual(path, f"{self.thin}:{self.thin.parent}")
        ran = subprocess.run(
            [plain, "libcublas.so.13"],
            capture_output=True,
            text=True,
            env={"LD_LIBRARY_PATH": path},
        )
        self.assertEqual(ran.stdout, "ours libcublas.so.13\n")

    def test_the_log_says_which_are_ours(self):
        ran = self.farcall(
            "run",
            "--no-check",
            "--endpoint",
            "tcp://127.0.0.1:1",
            "--thin",
            "--log",
            "info",
            "--",
            "true",
        )
        said = dict(
            line.split(": ")[-2:] for line in ran.stderr.splitlines() if "thin mode" in line
        )
        self.assertEqual(
            said["ours"].split(), ["libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9"]
        )
        self.assertEqual(said["here without the rest of its group"], "libcusparse.so.12")
        self.assertIn("libcufft.so.12", said["the program's own"].split())

    def test_flags_that_contradict_and_a_tree_without_thin(self):
        ran = self.farcall("run", "--thin", "--driver", "--", "true")
        self.assertEqual(
            (ran.returncode, ran.stderr), (125, "farcall run: give --driver or --thin, not both\n")
        )
        aside = self.thin.rename(self.folder / "aside")
        try:
            ran = self.farcall("run", "--thin", "--", "true")
            self.assertEqual(ran.returncode, 125)
            self.assertIn("lib/farcall/thin is not beside this binary's folder", ran.stderr)
            self.assertEqual(self.farcall("env", "--thin").returncode, 1)
        finally:
            aside.rename(self.thin)

    def doctor(self, *words):
        return json.loads(
            self.farcall("doctor", "--thin", "--device", "cpu", "--json", *words).stdout
        )

    def test_doctor_shows_that_nothing_of_nvidias_is_mapped(self):
        report = self.doctor("--", self.asks, "libcuda.so.1", str(self.nvidia / "libcublas.so.13"))
        self.assertEqual(report["mapped_not_ours"], [])
        cublas = next(row for row in report["libraries"] if "libcublas.so.13" in row["name"])
        self.assertEqual(
            (cublas["file"], cublas["why"]), (str(self.thin / "libcublas.so.13"), "the auditor")
        )
        self.assertIn(
            "none of NVIDIA's libraries is mapped",
            [finding["what"] for finding in report["findings"] if finding["ok"]],
        )

    def test_doctor_takes_a_question_whether_a_library_is_loaded_as_one(self):
        asks = self.compile(
            self.folder / "asks_only", ASKS.replace("RTLD_NOW", "RTLD_NOW | RTLD_NOLOAD")
        )
        report = self.doctor("--", asks, "libcublas.so.13")
        asked = [
            (finding["ok"], finding["what"].split(": ")[-1])
            for finding in report["findings"]
            if finding["what"].startswith("libcublas.so.13")
        ]
        self.assertEqual(asked, [(True, "asked only whether it is loaded")])

    def test_doctor_takes_a_part_of_a_loaded_library_as_that_one(self):
        report = self.doctor(
            "--", self.asks, "libcudnn.so.9", str(self.nvidia / "libcudnn_ops.so.9")
        )
        asked = [
            (finding["ok"], finding["what"].split(": ")[-1])
            for finding in report["findings"]
            if "libcudnn_ops.so.9" in finding["what"]
        ]
        self.assertEqual(asked, [(True, "the one that is loaded (ours)")])

    def test_doctor_shows_what_hides_ours(self):
        report = self.doctor("--no-audit", "--", self.asks, "libcuda.so.1", "libcublas.so.13")
        self.assertEqual(report["mapped_not_ours"], [str(self.nvidia / "libcublas.so.13")])
        cublas = next(row for row in report["libraries"] if row["name"] == "libcublas.so.13")
        self.assertEqual(cublas["why"], f"RPATH from file {self.asks}")

    def test_doctor_names_what_thin_mode_lacks(self):
        report = self.doctor("--", self.asks, "libcuda.so.1", "libcufft.so.12")
        self.assertEqual(report["mapped_not_ours"], [str(self.nvidia / "libcufft.so.12")])

    def test_the_auditor_knows_each_library_that_was_built(self):
        thin = harness.BUILD / "lib/farcall/thin"
        ran = subprocess.run(
            [
                harness.FARCALL,
                "run",
                "--no-check",
                "--endpoint",
                "tcp://127.0.0.1:1",
                "--thin",
                "--log",
                "info",
                "--",
                "true",
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = dict(
            line.split(": ")[-2:] for line in ran.stderr.splitlines() if "thin mode" in line
        )
        known = said["ours"].split() + said.get("here without the rest of its group", "").split()
        self.assertEqual(
            sorted(known),
            sorted(
                path.name
                for path in thin.glob("*.so.*")
                if not path.is_symlink() or path.name.count(".") == 2
            ),
        )


if __name__ == "__main__":
    unittest.main()
