# SPDX-License-Identifier: Apache-2.0
"""gpustat and nvitop, unmodified, beside a program that holds memory, all under one `farcall run`."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import FARCALL, SANITIZER  # noqa: E402

FOUND = subprocess.run(
    [HERE.parent / "frameworks/venv", "--path", "monitors"], capture_output=True, text=True
)
if FOUND.returncode:
    print(f"skipped: {FOUND.stderr.strip()}")
    sys.exit(77)
TOOLS = pathlib.Path(FOUND.stdout.strip()) / "bin"

# Holds 64 MiB until its input ends; then the tool runs, and what it printed is printed.
PROGRAM = """
import ctypes, json, subprocess, sys
holder = subprocess.Popen([sys.executable, "-c", '''
import ctypes, sys
cuda, handle, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0) == 0
assert cuda.cuCtxSetCurrent(handle) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)) == 0
assert cuda.cuCtxSynchronize() == 0
print("ready", flush=True)
sys.stdin.readline()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert holder.stdout.readline() == "ready\\n"
tool = subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=60)
holder.communicate("\\n")
print(json.dumps({"pid": holder.pid, "code": tool.returncode, "out": tool.stdout, "err": tool.stderr}))
"""


def watch(*tool):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_") or k in SANITIZER}
    env |= {"FARCALL_CPU_MEM": "2GiB", "LANG": "C.UTF-8", "COLUMNS": "160"}
    done = subprocess.run(
        [
            FARCALL,
            "run",
            "--device",
            "cpu",
            "--",
            TOOLS / "python",
            "-c",
            PROGRAM,
            TOOLS / tool[0],
            *tool[1:],
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["code"] == 0, result
    return result


class Tools(unittest.TestCase):
    def test_gpustat_shows_the_device_and_who_holds_memory(self):
        result = watch("gpustat", "--json")
        (device,) = json.loads(result["out"])["gpus"]
        self.assertEqual((device["name"], device["memory.total"]), ("Farcall CPU Device", 2048))
        self.assertGreaterEqual(device["memory.used"], 64)
        self.assertEqual(
            [device["temperature.gpu"], device["power.draw"], device["fan.speed"]], [None] * 3
        )
        (process,) = device["processes"]
        self.assertEqual(process["pid"], result["pid"])
        self.assertEqual(process["gpu_memory_usage"], device["memory.used"])

    def test_nvitop_shows_the_same(self):
        result = watch("nvitop", "--once", "--ascii")
        self.assertIn("Farcall CPU Device", result["out"])
        self.assertRegex(result["out"], r"MiB / 2048MiB")
        self.assertRegex(result["out"], rf"\b{result['pid']}\b")


if __name__ == "__main__":
    unittest.main(verbosity=2)
