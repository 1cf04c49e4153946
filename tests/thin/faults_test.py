# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around the thin libraries, against a server on the CPU device: children forked while threads are at work, libraries
loaded twice and in two versions, handles that wander between threads, links that are cut, several devices."""

import ctypes
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
CUDA_INCLUDE = os.environ.get("FARCALL_CUDA_INCLUDE", "/usr/include")
TOOLKIT = NVCC and pathlib.Path(NVCC).resolve().parent.parent / "lib64"
if not TOOLKIT or not (TOOLKIT / "libcusolver.so.12").exists():
    print("skipped: no nvcc whose toolkit has the libraries that the server would run")
    sys.exit(77)

PRELUDE = """
import ctypes, gc, json, os, random, signal, sys, threading, time
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
cuda, blas = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcublas.so.13")
def cu(status):
    assert status == 0, status
def created():
    made = c_void_p()
    assert blas.cublasCreate_v2(byref(made)) == 0
    return made
def room(values, kind=c_float):
    address, host = c_uint64(), (kind * len(values))(*values)
    cu(cuda.cuMemAlloc_v2(byref(address), c_size_t(ctypes.sizeof(host))))
    cu(cuda.cuMemcpyHtoD_v2(address, host, c_size_t(ctypes.sizeof(host))))
    return c_void_p(address.value)
def read(address, count, kind=c_float):
    out = (kind * count)()
    cu(cuda.cuMemcpyDtoH_v2(out, c_uint64(address.value), c_size_t(ctypes.sizeof(out))))
    return list(out)
def scale(handle, n, factor, x):
    return blas.cublasSscal_v2(handle, n, byref(c_float(factor)), x, 1)
def context_of(device):
    context = c_void_p()
    cu(cuda.cuInit(0))
    cu(cuda.cuDevicePrimaryCtxRetain(byref(context), device))
    cu(cuda.cuCtxSetCurrent(context))
    return context
"""


def run(endpoint, text, *arguments, path=(), **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
    folders = [*path, BUILD / "lib/farcall", BUILD / "lib/farcall/thin"]
    env |= {
        "FARCALL_LIBRARY_CACHE": "0",
        "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        "FARCALL_ENDPOINT": endpoint,
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + text, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-1000:], done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


class Lost(unittest.TestCase):
    """What a library could not do, of a call that had returned."""

    def codes(self, status):
        """Of a product that the server's cuBLAS answers with `status`: itself, two waits, the next two calls, a wait."""
        with tempfile.TemporaryDirectory() as folder:
            fake("cublas", 13, pathlib.Path(folder))
            fails = {"FARCALL_LIBRARIES": folder, "FARCALL_FAKE_FAILS": f"cublasSgemm_v2={status}"}
            with Server(environment=fails) as server:
                return run(
                    server.url,
                    """
context_of(0)
handle, x = created(), room([1.0] * 16)
one = c_float(1)
told = [blas.cublasSgemm_v2(handle, 0, 0, 2, 2, 2, byref(one), x, 2, x, 2, byref(one), x, 2)]
told += [cuda.cuCtxSynchronize(), cuda.cuCtxSynchronize(), scale(handle, 4, 1.0, x), scale(handle, 4, 1.0, x), cuda.cuCtxSynchronize()]
print(json.dumps(told))
""",
                )

    def test_what_was_not_computed_is_told_by_the_next_wait_and_by_the_handle(self):
        self.assertEqual(
            self.codes(14), [0, 999, 0, 14, 0, 0]
        )  # CUBLAS_STATUS_INTERNAL_ERROR, CUDA_ERROR_UNKNOWN

    def test_a_mistake_of_the_callers_is_told_by_the_handle_alone(self):
        self.assertEqual(self.codes(7), [0, 0, 0, 7, 0, 0])  # CUBLAS_STATUS_INVALID_VALUE

    def test_an_algorithm_that_cannot_be_loaded_is_told_by_the_call_that_uses_it_first(self):
        with tempfile.TemporaryDirectory() as folder:
            fake("cublasLt", 13, pathlib.Path(folder))
            fails = {"FARCALL_LIBRARIES": folder, "FARCALL_FAKE_FAILS": "cublasLtMatmul=14"}
            with Server(environment=fails) as server:
                told = run(
                    server.url,
                    """
context_of(0)
lt, x, one, algorithm = ctypes.CDLL("libcublasLt.so.13"), room([1.0] * 16), c_float(1), (c_uint64 * 8)()
handle, layout, operation = c_void_p(), c_void_p(), c_void_p()
assert lt.cublasLtCreate(byref(handle)) == 0
assert lt.cublasLtMatrixLayoutCreate(byref(layout), 0, c_uint64(2), c_uint64(2), c_int64(2)) == 0
assert lt.cublasLtMatmulDescCreate(byref(operation), 68, 0) == 0
def product():
    return lt.cublasLtMatmul(handle, operation, byref(one), x, layout, x, layout, byref(one), x, layout, x, layout, algorithm, None, c_size_t(0), None)
print(json.dumps([product(), product(), cuda.cuCtxSynchronize()]))
""",
                )
        self.assertEqual(told, [14, 14, 0])


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def asks(self, text, *arguments, **more):
        return run(self.server.url, text, *arguments, **more)

    def test_children_forked_while_threads_work_end_and_are_refused(self):
        """A lock that another thread held at the fork is nobody's in the child."""
        hung, codes = self.asks("""
context = context_of(0)
dnn, rt, rtc = ctypes.CDLL("libcudnn.so.9"), ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libnvrtc.so.13")
keep, x, stop = created(), room([1.0] * 64), threading.Event()
def busy(turn):
    cu(cuda.cuCtxSetCurrent(context))
    rounds = 0
    while not stop.is_set():
        rounds += 1
        own, tensor = created(), c_void_p()
        assert scale(own, 64, 1.0, x) == 0
        assert dnn.cudnnCreateTensorDescriptor(byref(tensor)) == 0
        assert dnn.cudnnSetTensor4dDescriptor(tensor, 0, 0, 1 + rounds % 50, 1 + turn, 2, 2) == 0
        assert dnn.cudnnDestroyTensorDescriptor(tensor) == 0
        assert rt.cudaStreamSynchronize(None) == 0
        program = c_void_p()
        assert rtc.nvrtcCreateProgram(byref(program), b"int x;", b"a", 0, None, None) == 0
        assert rtc.nvrtcDestroyProgram(byref(program)) == 0
        assert blas.cublasDestroy_v2(own) == 0
threads = [threading.Thread(target=busy, args=(i,)) for i in range(3)]
[thread.start() for thread in threads]
def child(how):
    made, pointer, program = c_void_p(), c_void_p(), c_void_p()
    told = [blas.cublasCreate_v2(byref(made)), scale(keep, 64, 1.0, x), dnn.cudnnCreate(byref(made)) // 10,
            int(dnn.cudnnCreateTensorDescriptor(byref(made)) != 0), int(rt.cudaMalloc(byref(pointer), c_size_t(16)) != 0),
            int(rt.cudaStreamSynchronize(None) != 0)]
    rtc.nvrtcCreateProgram(byref(program), b"int y;", b"b", 0, None, None)
    told.append(rtc.nvrtcCompileProgram(program, 0, None))
    blas.cublasDestroy_v2(keep)
    os.write(writable, json.dumps(told).encode() + b"\\n")
    if how:
        sys.exit(0)
    os._exit(0)
readable, writable = os.pipe()
hung = 0
for i in range(40):
    time.sleep(random.random() / 100)
    pid = os.fork()
    if pid == 0:
        child(i % 2)
    end = time.monotonic() + 20
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            hung += 1
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.002)
stop.set()
[thread.join() for thread in threads]
os.close(writable)
told = sorted(set(open(readable).read().splitlines()))
assert scale(keep, 64, 1.0, x) == 0
print(json.dumps([hung, told]))
""")
        self.assertEqual(hung, 0)
        self.assertEqual(codes, ["[1, 1, 100, 1, 1, 1, 11]"])

    def test_children_end_where_threads_are_inside_the_libraries_at_each_fork(self):
        names = ("thin/libcublas.so.13", "thin/libnvrtc.so.13", "libcuda.so.1")
        libraries = [str(BUILD / "lib/farcall" / name) for name in names]
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "forks"
            subprocess.run(
                [
                    os.environ.get("FARCALL_CC", "cc"),
                    "-O1",
                    "-Wall",
                    f"-I{CUDA_INCLUDE}",
                    str(HERE / "forks.c"),
                    "-o",
                    str(program),
                    *libraries,
                    "-lpthread",
                    "-Wl,--allow-shlib-undefined",
                ],
                check=True,
            )
            env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
            env |= {
                "FARCALL_ENDPOINT": self.server.url,
                "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
            }
            done = subprocess.run(
                [str(program), "200"], env=env, capture_output=True, text=True, timeout=240
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout), [0, 0])  # hung, wrong

    def test_a_fork_while_another_thread_begins_cuda_leaves_no_lock_held(self):
        """The fork waits for the connection, and then finds the other thread at work in the runtime's start."""
        proxy = link_proxy.LinkProxy(("127.0.0.1", self.server.port))
        proxy.black_hole()
        text = (
            PRELUDE
            + """
rt = ctypes.CDLL("libcudart.so.13")
def begin():
    assert rt.cudaGetDeviceCount(byref(c_int())) == 0
before = len(os.listdir("/proc/self/fd"))
thread = threading.Thread(target=begin)
thread.start()
while len(os.listdir("/proc/self/fd")) <= before:
    time.sleep(0.001)
print("connecting", flush=True)
pid = os.fork()
if pid == 0:
    rt.cudaGetDeviceCount(byref(c_int()))
    os._exit(0)
end = time.monotonic() + 20
while os.waitpid(pid, os.WNOHANG)[0] == 0:
    if time.monotonic() > end:
        os.kill(pid, signal.SIGKILL)
        sys.exit("the child hangs")
    time.sleep(0.002)
thread.join()
"""
        )
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        env |= {
            "FARCALL_LIBRARY_CACHE": "0",
            "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
            "FARCALL_ENDPOINT": proxy.url,
        }
        for _ in range(5):
            proxy.black_hole()
            with subprocess.Popen(
                [sys.executable, "-c", text],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as client:
                client.stdout.readline()
                proxy.restore()
                said = client.communicate(timeout=100)[1]
            self.assertEqual(client.returncode, 0, said)
        proxy.close()

    def test_a_library_closed_and_loaded_again_goes_on(self):
        told = self.asks("""
import _ctypes
context = context_of(0)
x = room([1.0] * 8)
first = created()
codes = [scale(first, 8, 2.0, x)]
for _ in range(3):
    _ctypes.dlclose(blas._handle)
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    blas = ctypes.CDLL("libcublas.so.13")
    second = created()
    codes += [scale(first, 8, 2.0, x), scale(second, 8, 2.0, x), blas.cublasDestroy_v2(second)]
codes.append(blas.cublasDestroy_v2(first))
print(json.dumps([codes, read(x, 8)]))
""")
        self.assertEqual(told, [[0] + [7, 0, 0, 0] * 3 + [0], [128.0] * 8])

    def test_two_majors_of_the_libraries_share_one_session(self):
        told = self.asks("""
old, new, old_blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcudart.so.13"), ctypes.CDLL("libcublas.so.12")
pointer, host, out, handle = c_void_p(), (c_float * 4)(1, 2, 3, 4), (c_float * 4)(), c_void_p()
versions = c_int(), c_int()
codes = [old.cudaMalloc(byref(pointer), c_size_t(16)), new.cudaMemcpy(pointer, host, c_size_t(16), 1), old_blas.cublasCreate_v2(byref(handle))]
codes += [scale(created(), 4, 2.0, pointer), old_blas.cublasSscal_v2(handle, 4, byref(c_float(3)), pointer, 1)]
codes += [new.cudaDeviceSynchronize(), old.cudaMemcpy(out, pointer, c_size_t(16), 2), new.cudaFree(pointer), old_blas.cublasDestroy_v2(handle)]
codes += [old.cudaRuntimeGetVersion(byref(versions[0])), new.cudaRuntimeGetVersion(byref(versions[1]))]
# A last error is that of its own runtime.
wrong = [old.cudaSetDevice(99), new.cudaGetLastError(), old.cudaGetLastError()]
print(json.dumps([codes, list(out), [version.value // 1000 for version in versions], wrong]))
""")
        self.assertEqual(told, [[0] * 11, [6.0, 12.0, 18.0, 24.0], [12, 13], [101, 0, 101]])

    def test_a_host_pointer_is_an_illegal_address_where_the_device_meets_it(self):
        """As with NVIDIA's library: the call succeeds, whoever waits is told, and nothing works in that context any more."""
        text = """
context = context_of(0)
handle, x = created(), room([1.0] * 8)
before = scale(handle, 8, 2.0, x)
host = (c_float * 4096)()
wrong = scale(handle, 8, 2.0, host)
told = [cuda.cuCtxSynchronize(), int(scale(handle, 8, 2.0, x) != 0), cuda.cuCtxSynchronize()]
print(json.dumps([before, wrong, told]))
"""
        self.assertEqual(self.asks(text), [0, 0, [700, 1, 700]])
        # The next session has nothing of it.
        self.assertEqual(
            self.asks(
                "context = context_of(0)\nhandle, x = created(), room([1.0] * 8)\nprint(json.dumps([scale(handle, 8, 2.0, x), read(x, 1)]))"
            ),
            [0, [2.0]],
        )

    def test_long_arrays_of_two_majors_keep_apart(self):
        """They go ahead under names that each library counts for itself."""
        told = self.asks("""
sparse, codes, right = ctypes.CDLL("libcusparse.so.12"), [], []
descriptor = c_void_p()
codes.append(sparse.cusparseCreateMatDescr(byref(descriptor)))
def work(solver, n):
    own = c_void_p()
    codes.append(solver.cusolverSpCreate(byref(own)))
    for _ in range(6):
        rows, columns, found = (c_int * (n + 1))(*range(n + 1)), (c_int * n)(*range(n)), c_int()
        codes.append(solver.cusolverSpXcsrissymHost(own, n, n, descriptor, rows, ctypes.cast(byref(rows, 4), c_void_p), columns, byref(found)))
        right.append(found.value)
threads = [threading.Thread(target=work, args=(ctypes.CDLL(f"libcusolver.so.{major}"), n)) for major, n in ((12, 170000), (11, 210000))]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(json.dumps([codes, right]))
""")
        self.assertEqual(told, [[0] * 15, [1] * 12])

    def test_threads_use_a_handle_each_and_one_in_turn(self):
        told = self.asks("""
context = context_of(0)
each = [(created(), room([1.0] * 32)) for _ in range(4)]
shared, common, baton, codes = created(), room([1.0] * 32), threading.Lock(), []
def work(handle, x):
    cu(cuda.cuCtxSetCurrent(context))
    for _ in range(20):
        codes.append(scale(handle, 32, 1.5, x))
        with baton:
            codes.append(scale(shared, 32, 2.0 if len(codes) % 4 < 2 else 0.5, common))
threads = [threading.Thread(target=work, args=one) for one in each]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
values = [read(x, 32) for _, x in each]
codes += [blas.cublasDestroy_v2(handle) for handle, _ in each] + [blas.cublasDestroy_v2(shared)]
print(json.dumps([sum(codes), [len(set(value)) for value in values], [abs(value[0] / 1.5 ** 20 - 1) < 1e-5 for value in values]]))
""")
        self.assertEqual(told, [0, [1] * 4, [True] * 4])

    def test_several_devices_have_a_handle_each(self):
        with Server(environment={"FARCALL_CPU_DEVICES": "2"}) as server:
            told = run(
                server.url,
                """
rt, codes, values = ctypes.CDLL("libcudart.so.13"), [], []
handles = []
for device in (0, 1):
    codes.append(rt.cudaSetDevice(device))
    x = c_void_p()
    codes += [rt.cudaMalloc(byref(x), c_size_t(16)), rt.cudaMemcpy(x, (c_float * 4)(1, 2, 3, 4), c_size_t(16), 1)]
    handles.append((created(), x))
for device in (1, 0, 1):
    codes.append(rt.cudaSetDevice(device))
    codes.append(scale(handles[device][0], 4, 10.0, handles[device][1]))
for device in (0, 1):
    out = (c_float * 4)()
    codes += [rt.cudaSetDevice(device), rt.cudaMemcpy(out, handles[device][1], c_size_t(16), 2), blas.cublasDestroy_v2(handles[device][0])]
    values.append(list(out))
print(json.dumps([sum(codes), values]))
""",
            )
        self.assertEqual(told, [0, [[10.0, 20.0, 30.0, 40.0], [100.0, 200.0, 300.0, 400.0]]])

    def test_a_link_cut_in_the_middle_of_a_factorisation_is_resumed(self):
        proxy = link_proxy.LinkProxy(("127.0.0.1", self.server.port))
        text = """
solver = ctypes.CDLL("libcusolver.so.12")
n, handle, size = 24, c_void_p(), c_int()
matrix = [float(n if i == j else 1.0 / (1 + abs(i - j))) for j in range(n) for i in range(n)]
assert solver.cusolverDnCreate(byref(handle)) == 0
info = room([0], c_int)
def factor():
    a = room(matrix, c_double)
    assert solver.cusolverDnDpotrf_bufferSize(handle, 0, n, a, n, byref(size)) == 0
    work = room([0.0] * max(size.value, 1), c_double)
    assert solver.cusolverDnDpotrf(handle, 0, n, a, n, work, size, info) == 0
    found = read(info, 1, c_int), read(a, n * n, c_double)
    for one in (a, work):
        cu(cuda.cuMemFree_v2(c_uint64(one.value)))
    return found
expected = factor()
print("ready", flush=True)
same = [factor() == expected for _ in range(60)]
print(json.dumps([solver.cusolverDnDestroy(handle), expected[0], expected[1] != matrix, all(same)]))
"""
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        env |= {
            "FARCALL_LIBRARY_CACHE": "0",
            "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
            "FARCALL_ENDPOINT": proxy.url,
        }
        cuts = 0
        with subprocess.Popen(
            [sys.executable, "-c", PRELUDE + text],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as client:
            client.stdout.readline()
            for _ in range(4):
                cut = proxy.cut_when("records_out", proxy.counts["records_out"] + 37)
                cuts += cut.wait(60)
                proxy.restore()
            out, said = client.communicate(timeout=200)
        proxy.close()
        self.assertEqual([client.returncode, cuts], [0, 4], said)
        self.assertEqual(json.loads(out.splitlines()[-1]), [0, [0], True, True])

    def test_doctor_names_the_libraries_of_the_server_and_not_where_they_lie(self):
        done = subprocess.run(
            [
                BUILD / "bin/farcall",
                "doctor",
                "--thin",
                "--json",
                "--endpoint",
                self.server.url,
                "--",
                "true",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        told = {one["name"]: one["version"] for one in json.loads(done.stdout)["server_libraries"]}
        self.assertEqual(len(told), 9)
        real = ctypes.CDLL(str(TOOLKIT / "libcusolver.so.12"))
        parts = [ctypes.c_int() for _ in range(3)]
        self.assertEqual(
            [real.cusolverGetProperty(i, ctypes.byref(part)) for i, part in enumerate(parts)],
            [0, 0, 0],
        )
        self.assertEqual(told["cusolver"], ".".join(str(part.value) for part in parts))
        self.assertNotIn(str(TOOLKIT), done.stdout)

    def test_devices_lists_the_libraries_beside_them(self):
        command = [BUILD / "bin/farcall", "devices", "--libraries", "--endpoint", self.server.url]
        told, lines = (
            subprocess.run(
                [*command, *more], capture_output=True, text=True, timeout=120, check=True
            ).stdout
            for more in (["--json"], [])
        )
        told = json.loads(told)
        self.assertEqual(len(told["devices"]), 1)
        self.assertEqual(len(told["libraries"]), 9)
        for one in told["libraries"]:
            self.assertIn(f"  {one['name']} {one['version'] or 'is missing'}\n", lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
