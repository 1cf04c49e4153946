#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/pack and tests/gpu/run without a GPU: what would be lost of the first minute on one.

The packed tree runs in a container that has neither this repository nor a network, compiler or
LLVM, with the CPU device as the machine's libcuda. FARCALL_BUILD names the built tree.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
MOST_BYTES = 64 << 20  # what travels to such a machine
MOST_FILES = 8  # what comes back
EVERYWHERE = (
    "libc.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libpthread.so",
    "libgcc_s.so",
    "libstdc++.so",
    "ld-linux",
    "libcuda.so.1",
)
LIMIT_S = 240


def needed(path):
    done = subprocess.run(["readelf", "-d", path], capture_output=True, text=True)
    return [
        line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "(NEEDED)" in line
    ]


def container(*binds):
    hidden = [
        "/usr/local",
        *map(str, pathlib.Path("/usr/lib").glob("llvm-*")),
        *map(str, pathlib.Path("/usr/lib").glob("cuda*")),
    ]
    flags = ["--ro-bind", "/usr", "/usr"]
    for folder in hidden:
        flags += ["--tmpfs", folder]
    for link in ("bin", "sbin", "lib", "lib64"):
        flags += ["--symlink", f"usr/{link}", f"/{link}"]
    flags += [
        "--dir",
        "/etc",
        "--ro-bind-try",
        "/etc/ld.so.cache",
        "/etc/ld.so.cache",
        "--ro-bind-try",
        "/etc/passwd",
        "/etc/passwd",
        "--ro-bind-try",
        "/etc/alternatives",
        "/etc/alternatives",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    return [
        "bwrap",
        "--unshare-net",
        "--unshare-pid",
        "--unshare-ipc",
        "--die-with-parent",
        *flags,
        *binds,
        "--chdir",
        "/",
    ]


def missing():
    """Why a container cannot be made here, or nothing."""
    if not shutil.which("bwrap") or not pathlib.Path("/usr/bin/python3").exists():
        return "no bwrap, or no /usr/bin/python3"
    done = subprocess.run(
        [*container(), "/usr/bin/python3", "-c", ""], capture_output=True, text=True
    )
    return (
        "" if done.returncode == 0 else f"bwrap cannot make namespaces here: {done.stderr.strip()}"
    )


class Rehearsal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pack = pathlib.Path(cls.folder.name) / "pack"
        done = subprocess.run([HERE / "pack", BUILD, cls.pack], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_packed(self, *arguments, pack=None):
        """Exit code, output, rows by (group, name, where), the files that come back."""
        reason = missing()
        if reason:
            self.skipTest(reason)
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": "/tmp",
            "OUT": "/out",
            "FARCALL_GPU_LIBCUDA": "/driver/libcuda.so.1",
            "FARCALL_CPU_MEM": "2GiB",
        }
        done = subprocess.run(
            [
                *container(
                    "--ro-bind",
                    str(pack or self.pack),
                    "/pack",
                    "--bind",
                    str(out),
                    "/out",
                    "--ro-bind",
                    str(BUILD / "lib/farcall/device"),
                    "/driver",
                ),
                "/usr/bin/python3",
                "/pack/tests/gpu/run",
                *arguments,
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        report = out / "results.json"
        rows = json.loads(report.read_text())["rows"] if report.exists() else []
        return (
            done.returncode,
            done.stdout + done.stderr,
            {(r["group"], r["name"], r["where"]): r for r in rows},
            sorted(p.name for p in out.iterdir()),
        )

    def test_the_pack_is_small_and_whole(self):
        files = [path for path in self.pack.rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertLess(self.pack.with_name("pack.tar.gz").stat().st_size, MOST_BYTES)
        brought = {path.name for path in files}
        for path in files:
            for name in needed(path):
                self.assertTrue(
                    name.startswith(EVERYWHERE) or name in brought,
                    f"{path.relative_to(self.pack)} needs {name}",
                )
        self.assertFalse(
            [name for name in brought if "LLVM" in name or "ptxjit" in name or "clang" in name]
        )
        for name in (
            "bin/farcall",
            "lib/farcall/libcuda.so.1",
            "tests/gpu/run",
            "tests/gpu/probe",
            "examples/vector_add",
        ):
            self.assertTrue((self.pack / name).exists(), name)

    def test_everything_runs_where_nothing_is(self):
        groups = (
            "probe",
            "mps",
            "examples",
            "calls",
            "subjects",
            "bench",
            "frameworks",
            "training",
            "memory",
            "modes",
            "reach",
        )
        code, output, rows, files = self.run_packed("--only", *groups, "--budget", "200")
        failed = {key: row["note"] for key, row in rows.items() if row["result"] == "fail"}
        self.assertEqual((failed, code), ({}, 0), output)
        passed = {key for key, row in rows.items() if row["result"] == "pass"}
        self.assertIn(("probe", "all sections", "native"), passed)
        self.assertIn(("bench", "farcall bench", "farcall"), passed)
        self.assertIn(("modes", "exclusive 2", "farcall"), passed)
        self.assertIn(("memory", "overhead-tenant", "farcall"), passed)
        for name in ("tls", "pool", "park", "after park"):
            self.assertIn(("reach", name, "farcall"), passed)
        for where in ("native", "tcp", "shm"):
            self.assertIn(("calls", "step", where), passed)
        for where in ("farcall", "thin"):
            self.assertIn(("conformance", "errors", where), passed)
        self.assertEqual(
            rows["memory", "what a context takes counts", "farcall"]["note"],
            "a software device has none",
        )
        for name in ("device_query", "vector_add", "train_mlp", "vector_add_shared"):
            self.assertIn(("examples", name, "native"), passed)
            self.assertIn(("examples", name, "farcall"), passed)
        self.assertGreater(rows["examples", "vector_add", "farcall"]["figures"]["round_trips"], 0)
        self.assertLessEqual(len(files), MOST_FILES)
        for name in ("results.md", "results.json", "probe.json", "bench.json", "logs.tar.gz"):
            self.assertIn(name, files)

    def test_a_step_that_fails_or_hangs_takes_nothing_else_along(self):
        pack = pathlib.Path(self.folder.name) / "spoilt"
        shutil.copytree(self.pack, pack, symlinks=True)
        (pack / "tests/gpu/probe").write_text("#!/bin/sh\nexit 3\n")
        # Deaf to what is polite, and with a child that keeps the output open.
        (pack / "examples/vector_add").write_text(
            "#!/bin/sh\ntrap '' TERM INT\nsleep 1000 &\necho hung; wait; sleep 1000\n"
        )
        (pack / "examples/matmul_tiled").write_bytes(b"no program")
        started = time.monotonic()
        code, output, rows, files = self.run_packed(
            "--only", "probe", "examples", "--limit", "20", "--budget", "150", pack=pack
        )
        self.assertLess(time.monotonic() - started, 150)
        self.assertEqual(code, 1, output)
        self.assertEqual(rows["probe", "all sections", "native"]["result"], "fail")
        for where in ("native", "farcall"):
            self.assertEqual(
                rows["examples", "vector_add", where]["note"], "no end after 20 s: hung"
            )
            self.assertEqual(rows["examples", "matmul_tiled", where]["result"], "fail")
            self.assertEqual(rows["examples", "device_query", where]["result"], "pass")
        self.assertIn("results.md", files)

    def test_past_the_budget_there_is_still_a_report(self):
        code, output, rows, files = self.run_packed("--only", "probe", "examples", "--budget", "0")
        self.assertIn("results.md", files, output)
        self.assertEqual(rows["examples", "vector_add", "native"]["result"], "skip")
        self.assertEqual(code, 1)

    def test_what_cannot_be_waited_for_is_cut_short(self):
        program = f"""
import pathlib, sys, time
sys.path.insert(0, {str(HERE)!r})
import harness
out = pathlib.Path({self.folder.name!r}) / "cut"
(out / "work").mkdir(parents=True)
harness.LAST_S = 0.2
harness.Watchdog(harness.Results(out, out / "work", 0)).start()
time.sleep(60)
"""
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=LIMIT_S
        )
        self.assertEqual(done.returncode, 1, done.stderr)
        cut = pathlib.Path(self.folder.name) / "cut"
        self.assertIn("cut short", (cut / "results.md").read_text())
        self.assertTrue((cut / "logs.tar.gz").exists())


if __name__ == "__main__":
    unittest.main()
