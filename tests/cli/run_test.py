# SPDX-License-Identifier: Apache-2.0
"""`farcall run` sets what frameworks need: PTX kept as PTX on a CPU device, a device node to see, one vGPU."""

import ctypes.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "session"))
from harness import BUILD, FARCALL, KEPT, Server  # noqa: E402

PTXAS = BUILD / "libexec/farcall/farcall-ptxas"
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run(*flags, program, **more):
    """What a Python program prints under `farcall run`, as JSON."""
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("XLA_FLAGS", "LD_PRELOAD", "FARCALL_VGPU", "FARCALL_ENDPOINT")
    }
    env |= KEPT
    done = subprocess.run(
        [
            FARCALL,
            "run",
            *flags,
            "--",
            sys.executable,
            "-c",
            "import json, os, subprocess, sys\n" + program,
        ],
        env=env | more,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout.splitlines()[0])  # a dry device's report may follow


ENVIRONMENT = "print(json.dumps(dict(os.environ)))"


class Run(unittest.TestCase):
    def test_a_private_cpu_device_gets_ptx(self):
        env = run("--device", "cpu", program=ENVIRONMENT)
        self.assertEqual(env["TRITON_PTXAS_PATH"], str(PTXAS))
        self.assertEqual(env["TRITON_PTXAS_BLACKWELL_PATH"], str(PTXAS))
        self.assertEqual(env["CUPY_COMPILE_WITH_PTX"], "1")
        self.assertEqual(
            env["XLA_FLAGS"], "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
        )
        self.assertEqual(env["NVIDIA_TF32_OVERRIDE"], "0")
        nvrtc = BUILD / "lib/farcall/device/nvrtc"
        if nvrtc.exists():  # with NVRTC's headers
            self.assertEqual(
                pathlib.Path(env["LD_LIBRARY_PATH"].split(":")[0]).resolve(), nvrtc.resolve()
            )
            self.assertTrue((nvrtc / "libnvrtc.so.13").exists())
            self.assertNotIn(
                str(nvrtc), run("--device", "cpu", "--thin", program=ENVIRONMENT)["LD_LIBRARY_PATH"]
            )
        self.assertEqual((pathlib.Path(env["CUDA_ROOT"]) / "bin/ptxas").resolve(), PTXAS.resolve())
        found = run(
            "--device",
            "cpu",
            program="import shutil; print(json.dumps(os.path.realpath(shutil.which('ptxas'))))",
        )
        self.assertEqual(found, str(PTXAS.resolve()))

    def test_nobody_hears_of_a_private_server(self):
        done = subprocess.run(
            [FARCALL, "run", "--device", "cpu", "--", "true"],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_private_dry_device_lets_xla_time_nothing(self):
        env = run("--device", "dry", program=ENVIRONMENT)
        self.assertEqual(env["XLA_FLAGS"], "--xla_gpu_autotune_level=0")
        self.assertNotIn("TRITON_PTXAS_PATH", env)

    def test_what_the_user_set_stays(self):
        env = run(
            "--device",
            "cpu",
            program=ENVIRONMENT,
            XLA_FLAGS="--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=true",
            TRITON_PTXAS_PATH="/mine",
            FARCALL_VGPU="mine",
        )
        self.assertEqual(
            (env["XLA_FLAGS"], env["TRITON_PTXAS_PATH"]),
            ("--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=true", "/mine"),
        )
        self.assertEqual(env["FARCALL_VGPU"], "mine")
        self.assertEqual(
            run("--device", "cpu", program=ENVIRONMENT, XLA_FLAGS="--other")["XLA_FLAGS"],
            "--other --xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false",
        )

    def test_other_devices_get_what_programs_compile(self):
        with Server(device="dry") as server:
            env = run("--endpoint", server.url, program=ENVIRONMENT)
            self.assertNotIn("TRITON_PTXAS_PATH", env)
            self.assertEqual(env["XLA_FLAGS"], "--xla_gpu_autotune_level=0")
            self.assertNotIn("device/nvrtc", env["LD_LIBRARY_PATH"])
            env = run("--endpoint", server.url, "--ptx-only", program=ENVIRONMENT)
            self.assertEqual(env["TRITON_PTXAS_PATH"], str(PTXAS))
        with Server() as server:  # a CPU device, wherever it is
            env = run("--endpoint", server.url, program=ENVIRONMENT)
            self.assertEqual(env["TRITON_PTXAS_PATH"], str(PTXAS))

    def test_each_run_is_a_vgpu_of_its_own(self):
        with Server() as server:
            first, second = (
                run("--endpoint", server.url, program=ENVIRONMENT)["FARCALL_VGPU"] for _ in range(2)
            )
        self.assertRegex(first, "^[0-9a-f]{32}$")
        self.assertNotEqual(first, second)

    @unittest.skipIf(
        os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvidiactl"),
        "the host has the real nodes",
    )
    def test_programs_find_a_device_node(self):
        look = (
            "def there(path):\n  return [os.path.exists(path), os.access(path, os.R_OK)]\n"
            "paths = ['/dev/nvidia0', '/dev/nvidiactl', '/dev/nvidia1', '/dev/null', '/nonexistent']\n"
            "child = subprocess.run([sys.executable, '-c', "
            "\"import os; print(os.path.exists('/dev/nvidia0'))\"], "
            "capture_output=True, text=True)\n"
            "print(json.dumps([[there(path) for path in paths], os.stat('/').st_ino != 0, child.stdout.strip()]))"
        )
        yes, no = [True, True], [False, False]
        self.assertEqual(
            run("--device", "cpu", program=look), [[yes, yes, no, yes, no], True, "True"]
        )
        self.assertEqual(
            run("--device", "cpu", "--no-device-node", program=look),
            [[no, no, no, yes, no], True, "False"],
        )

    @unittest.skipIf(
        os.path.exists("/dev/nvidia0") or os.path.exists("/dev/nvidiactl"),
        "the host has the real nodes",
    )
    def test_what_the_user_preloads_comes_first_and_stays(self):
        mine = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), ctypes.util.find_library("z")]))
        node = str(BUILD / "lib/farcall/libfarcall-device-node.so")
        look = (
            "print(json.dumps([os.environ['LD_PRELOAD'], sorted({line.split()[-1] "
            "for line in open('/proc/self/maps') if '.so' in line})]))"
        )
        preloaded, mapped = run("--device", "cpu", program=look, LD_PRELOAD=mine)
        self.assertEqual(preloaded, f"{mine}:{node}")
        for library in (*mine.split(":"), node):
            self.assertTrue(
                [
                    path
                    for path in mapped
                    if os.path.basename(path).startswith(os.path.basename(library))
                ],
                (library, mapped),
            )
        # A run inside a run adds nothing.
        command = [
            str(FARCALL),
            "run",
            "--device",
            "cpu",
            "--",
            sys.executable,
            "-c",
            "import os; print(os.environ['LD_PRELOAD'])",
        ]
        nested = run(
            "--device",
            "cpu",
            LD_PRELOAD=mine,
            program=f"print(json.dumps(subprocess.run({command}, capture_output=True, text=True).stdout))",
        )
        self.assertEqual(nested.strip(), preloaded)


class Ptxas(unittest.TestCase):
    def ptxas(self, *arguments):
        return subprocess.run(
            [PTXAS, *arguments], capture_output=True, text=True, cwd=self.folder.name
        )

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = pathlib.Path(self.folder.name)
        (self.at / "in.ptx").write_text(PTX)

    def test_ptx_comes_out_as_it_went_in_with_an_end(self):
        for words in (
            ("-lineinfo", "-v", "--gpu-name=sm_90a", "in.ptx", "-o", "out"),
            ("in.ptx", "-o", "out", "-arch=sm_130"),
            ("-arch", "sm_80", "-O", "3", "--output-file=out", "in.ptx"),
        ):
            with self.subTest(words):
                (self.at / "out").unlink(missing_ok=True)
                self.assertEqual(self.ptxas(*words).returncode, 0)
                self.assertEqual((self.at / "out").read_text(), PTX + "\0")

    def test_version_is_one_that_callers_read(self):
        self.assertRegex(self.ptxas("--version").stdout, r"release 13\.\d+, V13\.\d+\.\d+")

    def test_what_is_no_ptx_is_refused(self):
        (self.at / "bad").write_text("hello")
        for words, why in (
            (("bad", "-o", "out"), "no PTX"),
            (("gone", "-o", "out"), "gone: "),
            ((), "no input"),
            (("in.ptx", "bad"), "two inputs"),
            (("in.ptx", "-o"), "missing"),
            (("in.ptx", "-o", "no/out"), "cannot be written"),
        ):
            with self.subTest(words):
                done = self.ptxas(*words)
                self.assertEqual(done.returncode, 1)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
