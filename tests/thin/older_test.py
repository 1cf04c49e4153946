#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client that is newer than what it meets, a library that lacks functions or a server that lacks features: refused by name at the call, and
everything else works."""

import ctypes.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from fake_library import fake  # noqa: E402
from harness import BUILD, Server, link_proxy  # noqa: E402

NVCC = shutil.which("nvcc")
TOOLKIT = NVCC and pathlib.Path(NVCC).resolve().parent.parent / "lib64"
ARRAYS, LACKS, INVENTORY = 1 << 5, 1 << 6, 1 << 7  # proto/handshake/session_features.h
PRELUDE = """
import ctypes, json
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
cuda, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
handle, room = c_void_p(), c_uint64()
assert blas.cublasCreate_v2(byref(handle)) == 0
assert cuda.cuMemAlloc_v2(byref(room), c_size_t(1 << 16)) == 0
x, one = c_void_p(room.value), c_float(1)
def scale():
    return blas.cublasSscal_v2(handle, 4, byref(one), x, 1)
def product():
    return blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, byref(one), x, 2, x, 2, byref(one), x, 2)
"""


def run(endpoint, text, prelude=PRELUDE, **more):
    """What it printed last, and its log."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
    env |= {
        "FARCALL_LIBRARY_CACHE": "0",
        "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
        "FARCALL_ENDPOINT": endpoint,
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", prelude + text], env=env, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-1000:], done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


class OlderLibraries(unittest.TestCase):
    def fakes(self, *lacks):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        fake("cublas", 13, pathlib.Path(scratch.name), lacks)
        server = Server(environment={"FARCALL_LIBRARIES": scratch.name})
        self.addCleanup(server.stop)
        return server

    def test_a_function_that_the_library_lacks_is_refused_by_name(self):
        server = self.fakes("cublasSgemm_v2", "cublasIsamax_v2")
        told, log = run(
            server.url,
            """
found = c_int()
print(json.dumps([scale(), product(), product(), blas.cublasIsamax_v2(handle, 4, x, 1, byref(found)), scale(), blas.cublasDestroy_v2(handle)]))
""",
        )
        self.assertEqual(told, [0, 15, 15, 15, 0, 0])  # CUBLAS_STATUS_NOT_SUPPORTED
        for name in ("cublasSgemm_v2", "cublasIsamax_v2"):
            self.assertEqual(
                log.count(f"{name} is not supported: the server's library, version ?, has none"),
                1,
                log,
            )

    def test_a_setting_that_the_library_lacks_is_refused_by_the_next_call(self):
        server = self.fakes("cublasSetMathMode")
        told, log = run(
            server.url,
            """
print(json.dumps([blas.cublasSetMathMode(handle, 1), product(), product(), blas.cublasDestroy_v2(handle)]))
""",
        )
        self.assertEqual(told, [0, 15, 0, 0])
        self.assertIn("cublasSetMathMode is not supported", log)

    def test_a_server_that_does_not_say_what_it_lacks_tells_of_it_late(self):
        server = self.fakes("cublasSgemm_v2")
        proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), without_features=LACKS)
        self.addCleanup(proxy.close)
        told, _ = run(
            proxy.url,
            """
first = product()
assert cuda.cuCtxSynchronize() == 0
print(json.dumps([first, scale(), scale()]))
""",
        )
        self.assertEqual(told, [0, 15, 0])


@unittest.skipIf(
    ctypes.util.find_library("cufft"), "the loader finds a libcufft wherever a server runs"
)
class Inventory(unittest.TestCase):
    def made(self, endpoint):
        """What making two plans answered, the waits of the process, and its log."""
        with tempfile.NamedTemporaryFile() as stats:
            text = """
import ctypes, json
fft, plan = ctypes.CDLL("libcufft.so.12"), ctypes.c_int()
print(json.dumps([fft.cufftPlan1d(ctypes.byref(plan), 8, 0x29, 1) for _ in range(2)]))
"""
            told, log = run(endpoint, text, "", FARCALL_STATS=stats.name)
            return told, json.load(stats)["round_trips"], log

    def test_a_library_that_the_server_has_not_is_refused_without_a_question(self):
        bare = {
            "PATH": "/usr/bin:/bin",
            "LD_LIBRARY_PATH": "",
            "FARCALL_LIBRARIES": "",
            "CUDA_HOME": "",
            "CUDA_PATH": "",
            "VIRTUAL_ENV": "",
        }
        with Server(environment=bare) as server:
            told, waits, log = self.made(server.url)
            self.assertEqual(log.count("the server has no libcufft.so.12"), 1, log)
            self.assertIn("FARCALL_LIBRARIES", log)
            self.assertNotIn("cufft", server.log_text())
            proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), without_features=INVENTORY)
            self.addCleanup(proxy.close)
            by_question, asked_waits, log = self.made(proxy.url)
            self.assertIn("cufft: no libcufft.so.12", log)
            self.assertIn("cufft: no libcufft.so.12", server.log_text())
            self.assertEqual(told, by_question)
            self.assertNotIn(0, told)
            self.assertEqual(asked_waits, waits + 2)

    def test_one_installed_while_the_server_runs_is_there_for_the_next_session(self):
        with tempfile.TemporaryDirectory() as folder:
            bare = {
                "PATH": "/usr/bin:/bin",
                "LD_LIBRARY_PATH": "",
                "FARCALL_LIBRARIES": folder,
                "CUDA_HOME": "",
                "CUDA_PATH": "",
                "VIRTUAL_ENV": "",
            }
            with Server(environment=bare) as server:
                self.assertIn("the server has no libcufft.so.12", self.made(server.url)[2])
                fake("cufft", 12, pathlib.Path(folder), ())
                self.assertNotIn("the server has no libcufft.so.12", self.made(server.url)[2])


@unittest.skipUnless(
    TOOLKIT and (TOOLKIT / "libcusolver.so.12").exists(),
    "no nvcc whose toolkit has the libraries that the server would run",
)
class OlderServers(unittest.TestCase):
    def test_a_long_array_is_refused_by_name_and_the_session_goes_on(self):
        with Server() as server:
            proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), without_features=ARRAYS)
            self.addCleanup(proxy.close)
            text = """
solver, sparse = ctypes.CDLL("libcusolver.so.12"), ctypes.CDLL("libcusparse.so.12")
own, descriptor = c_void_p(), c_void_p()
assert solver.cusolverSpCreate(byref(own)) == 0 and sparse.cusparseCreateMatDescr(byref(descriptor)) == 0
def symmetric(n):
    rows, columns, found = (c_int * (n + 1))(*range(n + 1)), (c_int * n)(*range(n)), c_int()
    ends = ctypes.cast(ctypes.byref(rows, 4), c_void_p)
    return solver.cusolverSpXcsrissymHost(own, n, n, descriptor, rows, ends, columns, byref(found)), found.value
print(json.dumps([symmetric(100), symmetric(200000)[0], symmetric(100), scale(), cuda.cuCtxSynchronize()]))
"""
            told, log = run(proxy.url, text)
            self.assertEqual(told, [[0, 1], 9, [0, 1], 0, 0])  # CUSOLVER_STATUS_NOT_SUPPORTED
            self.assertIn(
                "cusolverSpXcsrissymHost is not supported with an array of 800000 bytes, 524288 at most: "
                "the server is older than this client",
                log,
            )
            told, _ = run(server.url, text)
            self.assertEqual(told, [[0, 1], 0, [0, 1], 0, 0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
