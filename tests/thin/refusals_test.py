#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries that do nothing: they have the real ones' names, SONAMEs and version nodes, and answer what their documents allow."""

import ctypes
import os
import re
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
THIN = BUILD / "lib/farcall/thin"
ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTS = sorted((ROOT / "codegen/refusals").glob("*.txt"))
sys.path.insert(0, str(ROOT / "codegen"))
import refusals  # noqa: E402


def symbols(path):
    shown = subprocess.run(
        ["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True
    ).stdout
    for words in map(str.split, shown.splitlines()):
        if len(words) >= 8 and words[0] != "Num:" and words[6] not in ("UND", "ABS"):
            name, _, node = words[7].partition("@@")
            yield name, node


def run(script, **environment):
    """A process of its own: what is said once is said once a process."""
    environment = {
        key: value
        for key, value in {**os.environ, "FARCALL_LOG": None, **environment}.items()
        if value is not None
    }
    return subprocess.run(
        [sys.executable, "-c", f"import ctypes\nthin = {str(THIN)!r} + '/'\n" + script],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def untimed(text):
    """Lines of the log without their times, which each of them has."""
    return re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", "", text, flags=re.M)


class RefusalsTest(unittest.TestCase):
    def test_each_exports_the_listed_names_under_its_version_node_and_no_other(self):
        self.assertTrue(LISTS)
        for path in LISTS:
            with self.subTest(path.name):
                listed = refusals.Listed(path)
                want = {(name, listed.node) for name in [*listed.calls, *listed.objects]}
                self.assertEqual(set(symbols(THIN / listed.soname)), want)
                dynamic = subprocess.run(
                    ["readelf", "-d", THIN / listed.soname], capture_output=True, text=True
                ).stdout
                self.assertIn(f"Library soname: [{listed.soname}]", dynamic)

    def test_each_plain_refusal_answers_the_status_of_its_library(self):
        for path in LISTS:
            listed = refusals.Listed(path)
            library = ctypes.CDLL(str(THIN / listed.soname))
            os.environ["FARCALL_LOG"] = "off"
            answers = {
                "": listed.status,
                "negative": -listed.status,
                "null": 0,
                "minus": -1,
                "untracked": -2,
                "zero": 0,
            }
            for name, kind in listed.calls.items():
                if kind in answers:
                    call = getattr(library, name)
                    call.restype = ctypes.c_int64
                    self.assertEqual(call(), answers[kind], f"{listed.soname}: {name}")

    def test_no_status_is_success(self):
        for path in LISTS:
            listed = refusals.Listed(path)
            if "" in listed.calls.values():
                self.assertNotEqual(listed.status, 0, listed.soname)

    def test_a_refusal_is_told_once_and_by_name(self):
        ran = run(
            "l = ctypes.CDLL(thin + 'libcupti.so.13')\nfor i in range(3): l.cuptiSubscribe()\nl.cuptiEnableDomain()"
        )
        self.assertEqual(
            untimed(ran.stderr).splitlines(),
            [
                "warn farcall-libcupti: cuptiSubscribe is not supported",
                "warn farcall-libcupti: cuptiEnableDomain is not supported",
            ],
        )
        quiet = run("ctypes.CDLL(thin + 'libcupti.so.13').cuptiSubscribe()", FARCALL_LOG="error")
        self.assertEqual(quiet.stderr, "")

    def test_the_log_file_is_used(self):
        path = BUILD / "tests/thin/refusals.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        ran = run(
            "ctypes.CDLL(thin + 'libcufile.so.0').cuFileDriverOpen()", FARCALL_LOG_FILE=str(path)
        )
        self.assertEqual(
            (ran.stderr, untimed(path.read_text())),
            ("", "warn farcall-libcufile: cuFileDriverOpen is not supported\n"),
        )

    def test_cupti_answers_its_version_and_the_names_of_its_codes(self):
        for soname, want in (("libcupti.so.12", 28), ("libcupti.so.13", 130500)):
            library, version, text = (
                ctypes.CDLL(str(THIN / soname)),
                ctypes.c_uint32(),
                ctypes.c_char_p(),
            )
            self.assertEqual(
                (library.cuptiGetVersion(ctypes.byref(version)), version.value), (0, want)
            )
            self.assertEqual(library.cuptiGetVersion(None), 1)
            for code, name in (
                (0, b"CUPTI_SUCCESS"),
                (27, b"CUPTI_ERROR_NOT_SUPPORTED"),
                (999, b"CUPTI_ERROR_UNKNOWN"),
            ):
                self.assertEqual(
                    (library.cuptiGetResultString(code, ctypes.byref(text)), text.value), (0, name)
                )
            for code in (-1, 47, 998, 1 << 30):
                self.assertEqual(
                    (library.cuptiGetResultString(code, ctypes.byref(text)), text.value), (1, None)
                )

    def test_cufile_says_that_the_platform_has_no_such_thing(self):
        class Error(ctypes.Structure):
            _fields_ = [("file", ctypes.c_int), ("cuda", ctypes.c_int)]

        library = ctypes.CDLL(str(THIN / "libcufile.so.0"))
        library.cuFileDriverOpen.restype = Error
        library.cuFileRead.restype = ctypes.c_ssize_t
        error = library.cuFileDriverOpen()
        self.assertEqual((error.file, error.cuda, library.cuFileRead()), (5007, 0, -5007))

    def test_a_call_that_cannot_fail_ends_the_program_and_says_why(self):
        ran = run(
            "ctypes.CDLL(thin + 'libnvshmem_host.so.3').nvshmem_barrier_all()\nprint('went on')"
        )
        self.assertEqual((ran.returncode, ran.stdout), (255, ""))
        self.assertEqual(
            untimed(ran.stderr),
            "error farcall-libnvshmem_host: nvshmem_barrier_all is not supported and cannot fail: "
            "the program ends\n",
        )

    def test_fftw_has_memory_and_says_which_shapes_it_has_no_plan_for(self):
        for soname in ("libcufftw.so.11", "libcufftw.so.12"):
            ran = run(
                f"l = ctypes.CDLL(thin + {soname!r})\nl.fftw_malloc.restype = l.fftw_plan_dft.restype = ctypes.c_void_p\nl.fftwf_cost.restype = ctypes.c_double\n"
                "m = l.fftw_malloc(100)\nctypes.memset(m, 1, 100)\nl.fftw_free(ctypes.c_void_p(m))\nprint(m % 16, l.fftw_plan_dft(4, (ctypes.c_int * 4)(2, 2, 2, 2), None, None, -1, 0), l.fftwf_cost(None))"
            )
            self.assertEqual(
                (ran.stdout, untimed(ran.stderr)),
                ("0 None 0.0\n", "warn farcall-libcufftw: fftw_plan_dft is not supported\n"),
            )

    def test_markers_are_silent(self):
        ran = run(
            "l = ctypes.CDLL(thin + 'libnvToolsExt.so.1')\nprint(l.nvtxRangePushA(b'a'), l.nvtxRangePop(), l.nvtxMarkA(b'm'))",
            FARCALL_LOG="trace",
        )
        self.assertEqual((ran.stdout.split()[:2], ran.stderr), (["-2", "-2"], ""))


if __name__ == "__main__":
    unittest.main()
