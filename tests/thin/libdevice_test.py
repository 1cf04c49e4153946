# SPDX-License-Identifier: Apache-2.0
"""libdevice.10.bc for XLA in a container without CUDA: fetched once, kept for the user alone, shown by XLA_FLAGS, and only to who lacks it."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
import harness  # noqa: E402
from harness import BUILD, Server  # noqa: E402

NVCC = shutil.which("nvcc")
WHOLE = NVCC and pathlib.Path(NVCC).resolve().parent.parent / "nvvm/libdevice/libdevice.10.bc"
if not WHOLE or not WHOLE.exists():
    print("skipped: no nvcc whose toolkit has nvvm/libdevice/libdevice.10.bc")
    sys.exit(77)
# XLA looks into these by itself: a host that has them must not show them.
PLACES = [
    path
    for path in map(pathlib.Path, ("/usr/local/cuda", "/opt/cuda"))
    if (path / "nvvm/libdevice").exists()
]
HIDE = (
    [
        "bwrap",
        "--die-with-parent",
        "--dev-bind",
        "/",
        "/",
        *(word for path in PLACES for word in ("--tmpfs", str(path.resolve()))),
    ]
    if PLACES
    else []
)
if HIDE and (
    shutil.which("bwrap") is None
    or subprocess.run([*HIDE, "true"], capture_output=True).returncode != 0
):
    print("skipped: a toolkit in XLA's own places, and no bubblewrap to hide it")
    sys.exit(77)

# What XLA's platform does before it reads its flags.
PRELUDE = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
def flags():
    found = libc.getenv(b"XLA_FLAGS")
    return found and found.decode()
def version():
    number = ctypes.c_int()
    assert cudart.cudaRuntimeGetVersion(ctypes.byref(number)) == 0
def begin():
    assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
"""
XLA = PRELUDE + "xla = ctypes.CDLL(sys.argv[1])\ncudart = ctypes.CDLL('libcudart.so.13')\n"
SHOWN = XLA + "begin(); version(); print(json.dumps(flags()))"


class Libdevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.folder = tempfile.TemporaryDirectory()
        cls.plugin = pathlib.Path(cls.folder.name) / "xla_plugin.so"
        source = cls.plugin.with_suffix(".c")
        source.write_text("int xla_plugin_is_there;\n")
        subprocess.run(
            [
                os.environ.get("FARCALL_CC", "cc"),
                "-shared",
                "-fPIC",
                str(source),
                "-o",
                str(cls.plugin),
            ],
            check=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.cache = pathlib.Path(self.scratch.name) / "cache"

    def tearDown(self):
        self.scratch.cleanup()

    def asks(self, text, url=None, before=(), **more):
        """What it prints, and its waits."""
        env = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("FARCALL_") and k not in ("XLA_FLAGS", "CUDA_ROOT")
        }
        stats = f"{self.scratch.name}/stats"
        env |= {
            "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
            "FARCALL_ENDPOINT": url or self.server.url,
            "FARCALL_CACHE_DIR": str(self.cache),
            "FARCALL_STATS": stats,
            "FARCALL_LOG": "info",
            **more,
        }
        done = subprocess.run(
            [*HIDE, *before, sys.executable, "-c", text, str(self.plugin)],
            env=env,
            cwd=self.scratch.name,
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.said = done.stderr
        waits = (
            json.loads(pathlib.Path(stats).read_text())["round_trips"]
            if os.path.exists(stats)
            else 0
        )
        return json.loads(done.stdout.splitlines()[-1]), waits

    def data(self, url=None):
        """Of one server: what another sends is never read for it."""
        scope = hashlib.sha256(
            f"farcall-server-1|open|{url or self.server.url}".encode()
        ).hexdigest()[:32]
        return self.cache / "cuda" / scope

    def kept(self):
        return self.data() / "nvvm/libdevice/libdevice.10.bc"

    def test_it_is_fetched_once_and_kept_for_the_user_alone(self):
        first, waits = self.asks(SHOWN)
        self.assertEqual(first, f"--xla_gpu_cuda_data_dir={self.data()}")
        self.assertEqual(self.kept().read_bytes(), WHOLE.read_bytes())
        self.assertEqual(
            [
                oct(path.stat().st_mode & 0o777)
                for path in (self.kept(), *list(self.kept().parents)[:5])
            ],
            ["0o600"] + ["0o700"] * 5,
        )
        self.assertEqual(len(list(self.kept().parent.iterdir())), 1)
        self.assertIn("XLA looks for the server's libdevice.10.bc by XLA_FLAGS", self.said)
        again, fewer = self.asks(SHOWN)
        self.assertEqual(again, first)
        self.assertEqual(waits - fewer, -(-WHOLE.stat().st_size // (256 << 10)))

    def test_the_runtime_s_first_call_shows_it_too(self):
        shown, _ = self.asks(
            XLA
            + "n = ctypes.c_int(); assert cudart.cudaGetDeviceCount(ctypes.byref(n)) == 0; print(json.dumps(flags()))"
        )
        self.assertEqual(shown, f"--xla_gpu_cuda_data_dir={self.data()}")

    def test_the_user_s_flags_stay_and_come_first(self):
        shown, _ = self.asks(SHOWN, XLA_FLAGS="--xla_gpu_autotune_level=0")
        self.assertEqual(shown, f"--xla_gpu_autotune_level=0 --xla_gpu_cuda_data_dir={self.data()}")
        for own in ("--xla_gpu_cuda_data_dir=/elsewhere", "/a/file/of/flags"):
            self.assertEqual(self.asks(SHOWN, XLA_FLAGS=own)[0], own)

    def test_other_variables_survive_it(self):
        shown, _ = self.asks(
            XLA + "begin(); version(); os.putenv('A_LATER', '1')\n"
            "print(json.dumps([flags() is not None, libc.getenv(b'A_LATER') is not None, libc.getenv(b'AN_EARLIER') is not None]))",
            AN_EARLIER="1",
        )
        self.assertEqual(shown, [True, True, True])

    def test_nothing_happens_to_who_does_not_want_it(self):
        for text, more in (
            (SHOWN, {"FARCALL_LIBDEVICE": "0"}),
            (
                PRELUDE
                + "cudart = ctypes.CDLL('libcudart.so.13'); begin(); version(); print(json.dumps(flags()))",
                {},
            ),
        ):
            self.assertEqual(self.asks(text, **more)[0], None)
            self.assertFalse(self.cache.joinpath("cuda").exists())

    def test_the_folder_is_named_when_kernels_are_registered_and_filled_when_cuda_has_begun(self):
        named = f"--xla_gpu_cuda_data_dir={self.data()}"
        register = "cudart.__cudaRegisterFatBinary(None); print(json.dumps(flags()))"
        self.assertEqual(self.asks(XLA + register), (named, 0))
        self.assertFalse(self.kept().exists())
        self.assertEqual(self.asks(XLA + "version(); print(json.dumps(flags()))"), (named, 0))
        self.assertFalse(self.kept().exists())
        self.assertEqual(self.asks(XLA + register + "; begin(); version()")[0], named)
        self.assertTrue(self.kept().exists())

    def test_what_xla_finds_by_itself_is_left_to_it(self):
        place = pathlib.Path(self.scratch.name) / "cuda_sdk_lib/nvvm/libdevice"
        place.mkdir(parents=True)
        shutil.copy(WHOLE, place)
        self.assertEqual(self.asks(SHOWN)[0], None)
        self.assertFalse(self.kept().exists())

    def test_a_cache_that_cannot_be_written_is_one_line(self):
        self.cache.write_text("a file")
        self.assertEqual(self.asks(SHOWN)[0], None)
        self.assertIn("libdevice.10.bc cannot be kept in", self.said)

    def test_a_server_without_a_toolkit_says_so(self):
        path = os.environ["PATH"]
        gone = {
            "PATH": ":".join(
                folder for folder in path.split(":") if not (pathlib.Path(folder) / "nvcc").exists()
            ),
            "FARCALL_LIBRARIES": self.scratch.name,
            "LD_LIBRARY_PATH": "",
            "CUDA_HOME": self.scratch.name,
            "CUDA_PATH": self.scratch.name,
        }
        hidden = pathlib.Path(self.scratch.name) / "farcall"
        hidden.write_text(f'#!/bin/sh\nexec {" ".join(HIDE)} {BUILD}/bin/farcall "$@"\n')
        hidden.chmod(0o755)
        with (
            unittest.mock.patch.object(harness, "FARCALL", hidden),
            Server(environment={**os.environ, **gone}) as server,
        ):
            self.asks(SHOWN, url=server.url)
        self.assertFalse(self.kept().exists())
        self.assertIn("no nvvm/libdevice/libdevice.10.bc in a toolkit", self.said)

    def test_farcall_run_thin_names_the_folder_ahead(self):
        run = [
            str(BUILD / "bin/farcall"),
            "run",
            "--thin",
            "--no-audit",
            "--endpoint",
            self.server.url,
            "--",
        ]
        shown, _ = self.asks(SHOWN, before=run, XLA_FLAGS="--xla_dump_to=x")
        # What follows is for devices that take PTX only.
        self.assertEqual(
            shown.split()[:2], ["--xla_dump_to=x", f"--xla_gpu_cuda_data_dir={self.data()}"]
        )
        self.assertEqual(self.kept().read_bytes(), WHOLE.read_bytes())
        ptx_only = run[:2] + ["--ptx-only"] + run[2:]
        root, _ = self.asks(XLA + "print(json.dumps(os.environ['CUDA_ROOT']))", before=ptx_only)
        self.assertEqual(root, f"{self.data()}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
