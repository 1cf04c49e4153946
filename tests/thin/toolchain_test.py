# SPDX-License-Identifier: Apache-2.0
"""The thin NVRTC and nvJitLink against servers on the CPU device: records and waits counted, PTX for a device that takes nothing else,
hostile sources, a server without them, threads, a forked child."""

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
from harness import BUILD, Server  # noqa: E402

NVCC = shutil.which("nvcc")
if (
    NVCC is None
    or not (pathlib.Path(NVCC).resolve().parent.parent / "lib64/libnvrtc.so.13").exists()
):
    print("skipped: no nvcc whose toolkit has the NVRTC that the server would run")
    sys.exit(77)
if not (BUILD / "lib/farcall/thin/libnvrtc.so.13").exists():
    print("skipped: this build has no libnvrtc: its headers were not there")
    sys.exit(77)

PRELUDE = """
import ctypes, json, os, sys, threading
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
cuda, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13")
def cu(status):
    assert status == 0, status
def fetch(program, what):
    size = c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, byref(size)) == 0
    data = ctypes.create_string_buffer(max(size.value, 1))
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, data) == 0
    return data.raw[:size.value]
def compiled(source, *options):
    program = c_void_p()
    assert nvrtc.nvrtcCreateProgram(byref(program), source.encode(), b"test.cu", 0, None, None) == 0
    array = (c_char_p * max(len(options), 1))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    told = status, fetch(program, "ProgramLog").rstrip(b"\\0").decode(), fetch(program, "PTX"), fetch(program, "CUBIN")
    nvrtc.nvrtcDestroyProgram(byref(program))
    return told
KERNEL = 'extern "C" __global__ void put(int* x, int y) { x[threadIdx.x] = y + threadIdx.x; }'
"""


def run(endpoint, text, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
    env |= {
        "FARCALL_LIBRARY_CACHE": "0",
        "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
        "FARCALL_ENDPOINT": endpoint,
        **more,
    }
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + text], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-1000:], done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


class Toolchain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def asks(self, text, **more):
        return run(self.server.url, text, **more)[0]

    def test_a_compilation_is_one_wait_and_none_the_second_time(self):
        waits = []
        for times in (0, 1, 5):
            with tempfile.TemporaryDirectory() as folder:
                self.asks(
                    f"major = c_int(); nvrtc.nvrtcVersion(byref(major), byref(major))\n"
                    f"print(json.dumps([compiled(KERNEL)[0] for i in range({times})]))",
                    FARCALL_STATS=f"{folder}/stats",
                )
                waits.append(json.loads(pathlib.Path(folder, "stats").read_text())["round_trips"])
        self.assertEqual([waits[1] - waits[0], waits[2] - waits[0]], [1, 1])

    def test_where_only_ptx_is_taken_a_cubin_is_ptx_that_loads(self):
        told = self.asks("""
status, log, ptx, cubin = compiled(KERNEL, "--gpu-architecture=sm_90")
device, context, module, function, memory = c_int(), c_void_p(), c_void_p(), c_void_p(), c_uint64()
cu(cuda.cuInit(0)); cu(cuda.cuDeviceGet(byref(device), 0))
cu(cuda.cuDevicePrimaryCtxRetain(byref(context), device)); cu(cuda.cuCtxSetCurrent(context))
cu(cuda.cuModuleLoadData(byref(module), cubin)); cu(cuda.cuModuleGetFunction(byref(function), module, b"put"))
cu(cuda.cuMemAlloc_v2(byref(memory), c_size_t(16)))
first = c_int(40)
arguments = (c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(first))
cu(cuda.cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 0, None, arguments, None))
out = (c_int * 4)(); cu(cuda.cuMemcpyDtoH_v2(out, memory, c_size_t(16)))
print(json.dumps([status, log, b".target sm_90" in cubin, list(out)]))""")
        self.assertEqual(told, [0, "", True, [40, 41, 42, 43]])

    def test_compiling_makes_no_context(self):
        told = self.asks("""
status = compiled(KERNEL)[0]
context, state, flags = c_void_p(1), c_int(9), ctypes.c_uint()
cu(cuda.cuCtxGetCurrent(byref(context))); cu(cuda.cuDevicePrimaryCtxGetState(0, byref(flags), byref(state)))
print(json.dumps([status, context.value, state.value]))""")
        self.assertEqual(told, [0, None, 0])

    def test_a_source_reads_nothing_of_the_server(self):
        hidden = tempfile.NamedTemporaryFile("w", suffix=".h", dir="/var/tmp")
        hidden.write("#define SECRET 1\n")
        hidden.flush()
        # Named by a macro: the client sees no file's name and sends none.
        for name in (hidden.name, "/proc/self/environ", "/etc/passwd"):
            told = self.asks(
                f"name = {name!r}\n"
                """
source = '#define NAME <' + name + '>\\n#if __has_include(NAME)\\n#error it is there\\n#endif\\n' + KERNEL
print(json.dumps(compiled(source)[:2]))"""
            )
            self.assertEqual(told, [0, ""], name)

    def test_options_that_name_files_are_refused_by_name(self):
        for option in (
            "--time=/tmp/farcall-times.csv",
            "--create-pch=/tmp/farcall.pch",
            "--use-pch=/etc/passwd",
            "--pch-dir=/tmp",
        ):
            status, log = self.asks(f"print(json.dumps(compiled(KERNEL, {option!r})[:2]))")
            self.assertEqual(status, 5)
            self.assertIn(f"farcall: option '{option}' is refused", log)

    def test_threads_compile_beside_each_other(self):
        told = self.asks("""
results = []
def work(i):
    results.extend(compiled(KERNEL.replace("put", f"put_{i}_{k}"))[0] for k in range(3))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(results))""")
        self.assertEqual(told, [0] * 12)

    def test_everything_is_the_same_when_each_call_waits(self):
        told = self.asks(
            "print(json.dumps([compiled('//' + 'x' * 1000000 + chr(10) + KERNEL)[0]]))",
            FARCALL_SYNC="1",
        )
        self.assertEqual(told, [0])

    def test_a_forked_child_is_told_so(self):
        told = self.asks("""
before = compiled(KERNEL)[0]
child = os.fork()
if child == 0:
    status, log, ptx, cubin = compiled(KERNEL.replace("put", "other"))
    os._exit(status)
print(json.dumps([before, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]))""")
        self.assertEqual(told, [0, 11])

    def test_too_many_files_are_refused_with_the_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            for i in range(8300):
                pathlib.Path(folder, f"h{i}.h").write_text(f"#define H{i}\n")
            told = self.asks(
                f"print(json.dumps(compiled(''.join(f'#include <h{{i}}.h>\\n' for i in range(8300)), '-I{folder}')[:2]))"
            )
        self.assertEqual(told[0], 1)
        self.assertIn("at most 8192", told[1])

    def test_linking_is_one_wait_and_hands_ptx_to_a_device_that_takes_it(self):
        told = self.asks("""
link = ctypes.CDLL("libnvJitLink.so.13")
ptx = compiled(KERNEL, "--gpu-architecture=compute_90")[2]
def linked(inputs):
    handle, size = c_void_p(), c_size_t()
    assert link.nvJitLinkCreate(byref(handle), 1, (c_char_p * 1)(b"-arch=sm_90")) == 0
    for data in inputs:
        assert link.nvJitLinkAddData(handle, 2, data, c_size_t(len(data)), None) == 0
    done = link.nvJitLinkComplete(handle)
    link.nvJitLinkGetErrorLogSize(handle, byref(size))
    log = ctypes.create_string_buffer(size.value + 1); link.nvJitLinkGetErrorLog(handle, log)
    status = link.nvJitLinkGetLinkedCubinSize(handle, byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    if status == 0: link.nvJitLinkGetLinkedCubin(handle, cubin)
    link.nvJitLinkDestroy(byref(handle))
    return done, status, cubin.raw == ptx, log.value.decode()
print(json.dumps([linked([ptx]), linked([ptx, ptx])]))""")
        self.assertEqual(told[0], [0, 0, True, ""])
        self.assertEqual(told[1][0], 6)
        self.assertIn("takes PTX only", told[1][3])


class Without(unittest.TestCase):
    def test_a_server_without_the_libraries_says_which_files_it_looked_for(self):
        path = os.environ["PATH"]
        with tempfile.TemporaryDirectory() as empty:
            gone = {
                "PATH": ":".join(
                    folder
                    for folder in path.split(":")
                    if not (pathlib.Path(folder) / "nvcc").exists()
                ),
                "FARCALL_LIBRARIES": empty,
                "LD_LIBRARY_PATH": "",
                "CUDA_HOME": empty,
                "CUDA_PATH": empty,
            }
            listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
            if "libnvrtc.so" in listed:
                self.skipTest("the loader finds NVRTC without being told")
            server = Server(environment={**os.environ, **gone})
            try:
                told, said = run(
                    server.url,
                    """
blas, handle = ctypes.CDLL("libcublas.so.13"), c_void_p()
print(json.dumps([compiled(KERNEL)[0], blas.cublasCreate_v2(byref(handle)), cuda.cuInit(0)]))""",
                )
            finally:
                server.stop()
        self.assertEqual(told, [11, 1, 0])
        for file in ("libnvrtc.so.13", "libcublas.so.13"):
            self.assertIn(f"no {file}", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
