# SPDX-License-Identifier: Apache-2.0
"""The thin mathematics libraries against a server on the CPU device: values as the real library's, run locally on that device;
records and waits counted; refusals, threads, a forked child."""

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
from harness import BUILD, Server, waits_but_for_memory  # noqa: E402

NVCC = shutil.which("nvcc")
if NVCC is None:
    print("skipped: no nvcc, whose toolkit has what the server would run")
    sys.exit(77)
TOOLKIT = pathlib.Path(NVCC).resolve().parent.parent / "lib64"
REAL = TOOLKIT / "libcublas.so.13"
if not REAL.exists():
    print(f"skipped: no {REAL}: what the server would run")
    sys.exit(77)

PRELUDE = """
import ctypes, json, os, sys, threading
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
cuda, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
def cu(status):
    assert status == 0, status
def handle():
    made = c_void_p()
    assert blas.cublasCreate_v2(byref(made)) == 0
    return made
def room(count):
    address = c_uint64()
    cu(cuda.cuMemAlloc_v2(byref(address), c_size_t(4 * count)))
    cu(cuda.cuMemsetD32_v2(address, 0x3f800000, c_size_t(count)))
    return c_void_p(address.value)
def gemm(blas_handle, n, a, b, c):
    one, zero = c_float(1), c_float(0)
    return blas.cublasSgemm_v2(blas_handle, 0, 0, n, n, n, byref(one), a, n, b, n, byref(zero), c, n)
def read(address, count):
    out = (c_float * count)()
    cu(cuda.cuMemcpyDtoH_v2(out, c_uint64(address.value), c_size_t(4 * count)))
    return list(out)
"""


def run(endpoint, text, *arguments, local=False, **more):
    folders = (
        [BUILD / "lib/farcall/device", TOOLKIT]
        if local
        else [BUILD / "lib/farcall", BUILD / "lib/farcall/thin"]
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
    env |= {"FARCALL_LIBRARY_CACHE": "0", "LD_LIBRARY_PATH": ":".join(map(str, folders)), **more}
    if endpoint:
        env["FARCALL_ENDPOINT"] = endpoint
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-1000:], done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


class Libraries(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_values_are_those_of_the_real_library(self):
        text = (HERE / "blas_client.py").read_text()
        here, there = run("", text, local=True), run(self.server.url, text)
        self.assertEqual([here["bad"], here["destroy"]], [7, 0])
        self.assertEqual(here, there)

    def test_a_product_is_one_record_and_no_wait(self):
        counts = []
        for times in (1, 101):
            with tempfile.NamedTemporaryFile(suffix=".json") as stats:
                run(
                    self.server.url,
                    PRELUDE
                    + f"""
h = handle(); a, b, c = room(64), room(64), room(64)
for _ in range({times}):
    assert blas.cublasSetStream_v2(h, None) == 0 and blas.cublasSetMathMode(h, 0) == 0 and gemm(h, 8, a, b, c) == 0
cu(cuda.cuCtxSynchronize())
print(json.dumps(read(c, 64)[0]))
""",
                    FARCALL_STATS=stats.name,
                )
                counts.append(json.loads(pathlib.Path(stats.name).read_text()))
        self.assertEqual(counts[1]["posted"] - counts[0]["posted"], 100)
        self.assertEqual(waits_but_for_memory(counts[1]), waits_but_for_memory(counts[0]), counts)

    def test_handles_that_are_none_are_refused(self):
        found = run(
            self.server.url,
            PRELUDE
            + """
h, gone = handle(), handle(); a = room(64)
assert blas.cublasDestroy_v2(gone) == 0
print(json.dumps([gemm(None, 8, a, a, a), gemm(gone, 8, a, a, a), gemm(c_void_p(12345), 8, a, a, a),
                  gemm(a, 8, a, a, a), blas.cublasDestroy_v2(gone), gemm(h, 8, a, a, a)]))
""",
        )
        self.assertEqual(found, [1, 1, 1, 1, 1, 0])

    def test_threads_have_a_handle_each_or_share_one_in_turn(self):
        found = run(
            self.server.url,
            PRELUDE
            + """
context = c_void_p()
handle(); cu(cuda.cuCtxGetCurrent(byref(context)))
shared, turn, out = handle(), threading.Lock(), [0.0] * 4
def work(i):
    cu(cuda.cuCtxSetCurrent(context))
    own = handle(); a, c = room(64), room(64)
    for _ in range(20):
        assert gemm(own, 8, a, a, c) == 0
        with turn:
            assert gemm(shared, 8, a, a, c) == 0
    out[i] = sum(read(c, 64))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps(out))
""",
        )
        self.assertEqual(found, [512.0] * 4)

    def test_a_forked_child_is_told_so(self):
        found = run(
            self.server.url,
            PRELUDE
            + """
h = handle(); a = room(64)
readable, writable = os.pipe()
if os.fork() == 0:
    os.write(writable, bytes([gemm(h, 8, a, a, a), blas.cublasCreate_v2(byref(c_void_p()))]))
    os._exit(0)
os.wait()
print(json.dumps(list(os.read(readable, 2)) + [gemm(h, 8, a, a, a)]))
""",
        )
        self.assertEqual(found, [1, 1, 0])

    def test_a_host_result_has_no_place_in_a_capture(self):
        found = run(
            self.server.url,
            PRELUDE
            + """
h = handle(); a, c = room(64), room(64); stream, graph, made = c_void_p(), c_void_p(), c_void_p()
cu(cuda.cuStreamCreate(byref(stream), 1))
blas.cublasSetStream_v2(h, stream)
assert gemm(h, 8, a, a, c) == 0
cu(cuda.cuStreamSynchronize(stream))
cu(cuda.cuMemsetD32_v2(c_uint64(c.value), 0, c_size_t(64)))
cu(cuda.cuStreamBeginCapture_v2(stream, 2))
assert gemm(h, 8, a, a, c) == 0
cu(cuda.cuStreamEndCapture(stream, byref(graph)))
before = read(c, 1)
cu(cuda.cuGraphInstantiateWithFlags(byref(made), graph, c_uint64(0)))
cu(cuda.cuGraphLaunch(made, stream)); cu(cuda.cuStreamSynchronize(stream))
after = read(c, 1)
cu(cuda.cuStreamBeginCapture_v2(stream, 2))
refused = blas.cublasSdot_v2(h, 8, a, 1, a, 1, byref(c_float()))
ended = cuda.cuStreamEndCapture(stream, byref(graph))
print(json.dumps([before, after, refused != 0, ended != 0]))
""",
        )
        self.assertEqual(found, [[0.0], [8.0], True, True])

    def test_host_arrays_that_are_no_matrix_are_refused(self):
        found = run(
            self.server.url,
            """
import ctypes, json
from ctypes import byref, c_double, c_int, c_size_t, c_void_p
sparse, solver = ctypes.CDLL("libcusparse.so.12"), ctypes.CDLL("libcusolver.so.12")
handle, descriptor, info, other = c_void_p(), c_void_p(), c_void_p(), c_void_p()
made = [solver.cusolverSpCreate(byref(handle)), sparse.cusparseCreateMatDescr(byref(descriptor)),
        solver.cusolverSpCreateCsrcholInfoHost(byref(info)), solver.cusolverSpCreateCsrcholInfoHost(byref(other))]
assert made == [0] * 4, made
ints, values, x = lambda *v: (c_int * len(v))(*v), (c_double * 2)(2, 3), (c_double * 2)()
def solve(rows, columns):
    return solver.cusolverSpDcsrlsvcholHost(handle, 2, 2, descriptor, values, rows, columns, values, c_double(0), 0, x, byref(c_int()))
def order(rows, columns):
    return solver.cusolverSpXcsrsymrcmHost(handle, 2, 2, descriptor, rows, columns, ints(0, 0))
def size(info, n):
    inner, work = c_size_t(), c_size_t()
    return solver.cusolverSpDcsrcholBufferInfoHost(handle, n, 2, descriptor, values, ints(0, 1, 2), ints(0, 1), info, byref(inner), byref(work))
out = [solve(rows, columns) for rows, columns in ((ints(0, 1, 2), ints(0, 1)), (ints(0, 1, 2), ints(0, 7)), (ints(0, 1, 2), ints(0, -1)),
       (ints(0, 9, 2), ints(0, 1)), (ints(0, 1, 1000000), ints(0, 1)), (ints(-5, 1, 2), ints(0, 1)), (None, ints(0, 1)), (ints(0, 1, 2), None))]
out += [order(ints(0, 1, 2), ints(0, 2)), order(ints(1, 2, 3), ints(1, 2))]
out += [solver.cusolverSpXcsrcholAnalysisHost(handle, 2, 2, descriptor, ints(0, 1, 2), ints(0, 1), info)]
# Of another size than was analysed; solved with before anything was sized.
out += [size(info, 1), size(other, 2), solver.cusolverSpDcsrcholSolveHost(handle, 2, values, x, info, x), size(info, 2)]
out += [solve(ints(0, 1, 2), ints(0, 1)), [round(value, 6) for value in x]]
print(json.dumps(out))
""",
        )
        self.assertEqual(found, [0] + [3] * 7 + [3, 3] + [0] + [3, 3, 3, 0] + [0, [1.0, 1.0]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
