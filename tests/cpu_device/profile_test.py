# SPDX-License-Identifier: Apache-2.0
"""Profiles of the CPU device, and `sass = skip`: alone and by `farcall run`. FARCALL_BUILD names the tree."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
FARCALL, DEVICE = BUILD / "bin/farcall", BUILD / "lib/farcall/device"
MIXED = BUILD / "tests/cpu_device/mixed"
DESCRIBE = """
import ctypes, json, sys
cuda = ctypes.CDLL(sys.argv[1])
code = cuda.cuInit(0)
if code: print(json.dumps(code)); sys.exit()
count, value, total, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
assert not cuda.cuDeviceGetCount(ctypes.byref(count)) and not cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)
assert not cuda.cuDeviceGetName(name, 256, 0)
attributes = {}
for attribute in range(1, 150):
    if not cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0): attributes[attribute] = value.value
print(json.dumps({"count": count.value, "total": total.value, "name": name.value.decode(), "attributes": attributes}))
"""
# Where the calling thread and one of the device's run.
WHERE = """
import ctypes, json, os, sys
cuda = ctypes.CDLL(sys.argv[1])
context, found = ctypes.c_void_p(), {}
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)
look = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: found.update(device=sorted(os.sched_getaffinity(0))))
assert not cuda.cuLaunchHostFunc(None, look, None) and not cuda.cuCtxSynchronize()
print(json.dumps({"program": sorted(os.sched_getaffinity(0)), **found}))
"""
GOOD = "card = two small\ncompute_capability = 12.1\ndevices = 2\nmemory = 512MiB\nmultiprocessors = 7\nclock_mhz = 1234\n"


def clean(**more):
    env = {name: value for name, value in os.environ.items() if not name.startswith("FARCALL_")}
    return {**env, "FARCALL_CPU_CACHE": str(BUILD / "tests/cpu_device/profile_cache"), **more}


def describe(program=DESCRIBE, **environment):
    """What the device says of itself (or cuInit's code), and its stderr."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(DEVICE / "libcuda.so.1")],
        env=clean(**environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout), done.stderr


def described_by(text, program=DESCRIBE, **environment):
    with tempfile.NamedTemporaryFile("w", suffix=".profile") as file:
        file.write(text)
        file.flush()
        return describe(program, FARCALL_CPU_PROFILE=file.name, **environment)


class Profiles(unittest.TestCase):
    def capability(self, device):
        return device["attributes"]["75"], device["attributes"]["76"]

    def test_without_one_it_is_that_of_13_0(self):
        self.assertEqual(describe()[0], describe(FARCALL_CPU_PROFILE="13.0")[0])
        self.assertEqual(self.capability(describe()[0]), (13, 0))

    def test_every_profile_that_lies_there_can_be_had_by_name(self):
        names = [path.name.removesuffix(".profile") for path in (DEVICE / "profiles").iterdir()]
        self.assertGreaterEqual(set(names), {"13.0", "12.1", "8.0"})
        for name in names:
            device, errors = describe(FARCALL_CPU_PROFILE=name)
            self.assertEqual("%d.%d" % self.capability(device), name, errors)

    def test_a_file_of_one_s_own(self):
        device, _ = described_by(GOOD)
        self.assertEqual(
            (device["count"], device["total"], self.capability(device)), (2, 512 << 20, (12, 1))
        )
        self.assertEqual(device["name"], "Farcall CPU Device (two small)")
        self.assertEqual((device["attributes"]["16"], device["attributes"]["13"]), (7, 1234000))

    def test_variables_go_before_it(self):
        device, _ = described_by(GOOD, FARCALL_CPU_DEVICES="3", FARCALL_CPU_MEM="64MiB")
        self.assertEqual((device["count"], device["total"]), (3, 64 << 20))

    def test_the_device_has_the_processors_that_it_names_and_the_program_its_own(self):
        own = sorted(os.sched_getaffinity(0))
        for text, device in ((f"processors = {own[-1]}\n", own[-1:]), ("", own)):
            found, errors = described_by(text + "memory = 64MiB\n", WHERE)
            self.assertEqual(found, {"program": own, "device": device}, errors)

    def test_what_is_wrong_is_one_line_with_what_would_be_right(self):
        for text, words in (
            ("memory = 12Gb\n", ("line 1", "memory cannot be '12Gb'", "want 16MiB to 4TiB")),
            ("\ndevices = 17\n", ("line 2", "devices cannot be '17'", "want 1 to 16")),
            ("devices = -1\n", ("cannot be '-1'",)),
            ("processors = 0,0\n", ("processors cannot be '0,0'", "like 2,4-7")),
            ("processors = 1-0\n", ("cannot be '1-0'",)),
            ("processors = 0,\n", ("cannot be '0,'",)),
            ("processors = 1023\n", ("cannot be '1023'", "that it may use")),
            ("compute_capability = 42.0\n", ("compute_capability cannot be '42.0'", "12.1, 13.0")),
            (
                "compute_capability = 8.0\nclusters = yes\n",
                ("came with compute capability 9.0, not 8.0",),
            ),
            ("shared_per_block_optin = 228KiB\n", ("want a size of at most 227KiB",)),
            (
                "shared_per_multiprocessor = 64KiB\n",
                ("want at most shared_per_multiprocessor, 65536",),
            ),
            ("sass = maybe\n", ("sass cannot be 'maybe'", "want refuse or skip")),
            ("warps = maybe\n", ("warps cannot be 'maybe'", "want auto or lockstep")),
            ("tensor_cores = 4\n", ("no setting 'tensor_cores'", "multiprocessors")),
            ("nonsense\n", ("no setting 'nonsense'", "want NAME = VALUE")),
        ):
            with self.subTest(text):
                code, errors = described_by(text)
                self.assertEqual(code, 1)  # CUDA_ERROR_INVALID_VALUE
                self.assertEqual(errors.count("\n"), 1, errors)
                for word in words:
                    self.assertIn(word, errors)

    def test_a_profile_that_is_not_there(self):
        code, errors = describe(FARCALL_CPU_PROFILE="99.9")
        self.assertEqual(code, 1)
        self.assertRegex(
            errors, "FARCALL_CPU_PROFILE=99.9: no such profile; there are .*12.1, 13.0"
        )
        for variable, value in (
            ("MEM", "4"),
            ("DEVICES", "0"),
            ("SASS", "please"),
            ("WARPS", "32"),
        ):
            code, errors = describe(**{"FARCALL_CPU_" + variable: value})
            self.assertEqual(code, 1)
            self.assertIn(f"FARCALL_CPU_{variable}={value}: want", errors)

    def test_a_server_takes_one_by_name_or_path_and_refuses_a_bad_one(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder, "good.profile"), pathlib.Path(folder, "bad.profile")
            good.write_text(GOOD)
            bad.write_text("devices = none\n")
            run = lambda device: subprocess.run(
                [
                    str(FARCALL),
                    "run",
                    "--device",
                    device,
                    "--",
                    sys.executable,
                    "-c",
                    DESCRIBE,
                    "libcuda.so.1",
                ],
                env=clean(),
                capture_output=True,
                text=True,
                timeout=120,
            )
            self.assertEqual(self.capability(json.loads(run("cpu:8.0").stdout)), (8, 0))
            self.assertEqual(json.loads(run(f"cpu:{good}").stdout)["count"], 2)
            done = run(f"cpu:{bad}")
            self.assertEqual(done.returncode, 125)
            self.assertIn("devices cannot be 'none'; want 1 to 16", done.stderr)


class SassSkip(unittest.TestCase):
    """Two launches with PTX, three of machine code for 8.0 alone."""

    def alone(self, profile="8.0", **environment):
        return subprocess.run(
            [str(MIXED)],
            env=clean(LD_LIBRARY_PATH=str(DEVICE), FARCALL_CPU_PROFILE=profile, **environment),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def through(self, device, *flags, **environment):
        with tempfile.NamedTemporaryFile(suffix=".json") as report:
            done = subprocess.run(
                [
                    str(FARCALL),
                    "run",
                    "--device",
                    device,
                    "--report",
                    report.name,
                    *flags,
                    "--",
                    str(MIXED),
                ],
                env=clean(**environment),
                capture_output=True,
                text=True,
                timeout=120,
            )
            return done, json.loads(pathlib.Path(report.name).read_text() or "null")

    def assert_loud(self, text):
        self.assertIn("farcall: SKIPPING MACHINE CODE:", text)
        self.assertRegex(text, "KERNELS SKIPPED: 3 launches of 1 kernels were not executed")
        self.assertRegex(text, r"   3  _Z6AddTenPi")

    def test_without_it_machine_code_is_refused(self):
        for done in (self.alone(), self.through("cpu:8.0")[0]):
            self.assertEqual(done.stdout, "error cudaErrorNoKernelImageForDevice\n", done.stderr)
            self.assertNotIn("SKIP", done.stderr)

    def test_alone(self):
        done = self.alone(FARCALL_CPU_SASS="skip")
        self.assertEqual(done.stdout, "value 102\n", done.stderr)
        self.assert_loud(done.stderr)
        self.assertEqual(done.stderr.count("machine code alone, skipped"), 1)
        # Whatever the log level.
        self.assert_loud(self.alone(FARCALL_CPU_SASS="skip", FARCALL_LOG="off").stderr)

    def test_through_a_server(self):
        done, report = self.through("cpu:8.0", FARCALL_CPU_SASS="skip")
        self.assertEqual(done.stdout, "value 102\n", done.stderr)
        self.assert_loud(done.stderr)
        self.assertEqual(
            (report["executed"], report["skipped_launches"], report["skipped"]),
            (False, 3, {"_Z6AddTenPi": 3}),
        )
        self.assertEqual(report["kind"], "cpu-skip")
        self.assertIn("skips machine code", report["device"])

    def test_by_a_profile_and_without_asking_for_a_report(self):
        with tempfile.NamedTemporaryFile("w", suffix=".profile") as file:
            file.write("compute_capability = 8.0\nclusters = no\nmulticast = no\nsass = skip\n")
            file.flush()
            done = subprocess.run(
                [str(FARCALL), "run", "--device", f"cpu:{file.name}", "--", str(MIXED)],
                env=clean(),
                capture_output=True,
                text=True,
                timeout=120,
            )
        self.assertEqual(done.stdout, "value 102\n", done.stderr)
        self.assert_loud(done.stderr)

    def test_machine_code_of_another_device_is_refused_all_the_same(self):
        done = self.alone("12.1", FARCALL_CPU_SASS="skip")
        self.assertEqual(done.stdout, "error cudaErrorNoKernelImageForDevice\n")
        self.assertIn("KERNELS SKIPPED: none was launched", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
