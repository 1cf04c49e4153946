# SPDX-License-Identifier: Apache-2.0
"""cuDNN's backend API against a fake that writes down what it is told: scalars by value, what is asked once, refusals, threads, a forked child."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, Server, waits_but_for_memory  # noqa: E402

PRELUDE = """
import ctypes, json, os, sys, threading
from ctypes import byref, c_float, c_void_p
from device import Memory, check, cuda, start
start()
from backend import *
handle = c_void_p()
assert cudnn.cudnnCreate(byref(handle)) == 0
def planned(engine, graph=scaled):
    chosen = final(ENGINE, (1300, DESCRIPTOR, graph(handle)), (1301, INT64, engine))
    plan = make(PLAN)
    codes = put(plan, 400, HANDLE, handle), put(plan, 401, DESCRIPTOR, final(CONFIG, (300, DESCRIPTOR, chosen)))
    assert codes == (0, 0), codes
    return cudnn.cudnnBackendFinalize(plan), plan
def run(plan, x, number, y):
    pack = final(PACK, (1000, INT64, 1, 2, 3), (1001, POINTER, x.address, c_void_p(ctypes.addressof(number)), y.address))
    status = cudnn.cudnnBackendExecute(handle, plan, pack)
    cudnn.cudnnBackendDestroyDescriptor(pack)
    return status
x, y, number = Memory(c_float, 64), Memory(c_float, 64), c_float(2.5)
"""


class Backend(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        cls.log = pathlib.Path(cls.folder.name) / "log"
        subprocess.run(
            [
                os.environ.get("FARCALL_CC", "cc"),
                "-shared",
                "-fPIC",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                str(HERE / "fake_cudnn.c"),
                "-Wl,-soname,libcudnn.so.9",
                "-o",
                f"{cls.folder.name}/libcudnn.so.9",
            ],
            check=True,
        )
        cls.server = Server(
            "--trust-tenants",
            environment={"FARCALL_LIBRARIES": cls.folder.name, "FARCALL_FAKE_LOG": str(cls.log)},
        )

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def run_client(self, text, **more):
        """What it prints, the lines of the fake, and the counts of the shim."""
        self.log.write_text("")
        env = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
        with tempfile.NamedTemporaryFile(suffix=".json") as stats:
            env |= {
                "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
                "FARCALL_ENDPOINT": self.server.url,
                "PYTHONPATH": str(HERE / "programs"),
                "FARCALL_STATS": stats.name,
                "FARCALL_LIBRARY_CACHE": "0",
                **more,
            }
            done = subprocess.run(
                [sys.executable, "-c", PRELUDE + text],
                env=env,
                capture_output=True,
                text=True,
                timeout=200,
            )
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            counts = json.loads(pathlib.Path(stats.name).read_text())
        return json.loads(done.stdout.splitlines()[-1]), self.log.read_text().splitlines(), counts

    def test_a_scalar_by_value_is_that_of_the_call(self):
        found, lines, _ = self.run_client("""
status, plan = planned(0)
codes = []
for value in (2.5, -1.0, 7.0):
    number.value = value
    codes.append(run(plan, x, number, y))
    number.value = 99
check(cuda.cuCtxSynchronize())
print(json.dumps([status, codes, x.address.value, y.address.value]))
""")
        status, codes, x, y = found
        self.assertEqual([status, codes], [0, [0, 0, 0]])
        self.assertEqual(
            [line for line in lines if line.startswith("execute")],
            [f"execute 1@{x:#x} 2={value} 3@{y:#x}" for value in ("2.5", "-1", "7")],
        )

    def test_the_same_tree_is_asked_once_and_a_run_is_one_record(self):
        counts, finals = [], []
        for times in (2, 42):
            _, lines, count = self.run_client(f"""
for _ in range({times}):
    status, plan = planned(0)
    assert status == 0 and get(plan, 402, INT64, 1) == (0, 1, [64]) and run(plan, x, number, y) == 0
check(cuda.cuCtxSynchronize())
print(json.dumps(0))
""")
            counts.append(count)
            finals.append(
                [line for line in lines if line.startswith("finalize") and line != "finalize 16"]
            )
        self.assertEqual(waits_but_for_memory(counts[1]), waits_but_for_memory(counts[0]), counts)
        self.assertEqual(counts[1]["posted"] - counts[0]["posted"], 40)
        self.assertEqual(finals[0], finals[1])

    def test_a_new_shape_is_one_wait_once_its_like_was_built(self):
        counts = []
        for shapes in (2, 12):
            found, lines, count = self.run_client(f"""
def built(channels):
    status, plan = planned(0, lambda own: plain(own, channels))
    return status, get(plan, 402, INT64, 1)
print(json.dumps([built(2 + i) for i in range({shapes})]))
""")
            self.assertEqual(found, [[0, [0, 1, [64]]]] * shapes)
            counts.append(waits_but_for_memory(count))
            self.assertEqual(lines.count("finalize 5"), shapes)
        self.assertEqual(counts[1] - counts[0], 10, counts)

    def test_what_is_refused_ahead_is_told_where_it_is_met(self):
        found, lines, _ = self.run_client("""
text = ctypes.create_string_buffer(100)
def told(engine, channels):
    status = planned(engine, lambda own: plain(own, channels))[0]
    cudnn.cudnnGetLastErrorString(text, 100)
    return [status, text.value.decode()]
print(json.dumps([told(engine, channels) for channels in (2, 3, 4) for engine in (13, 0)]))
""")
        self.assertEqual(found, [[3000, "the fake refuses it"], [0, ""]] * 3)

    def test_nothing_is_asked_ahead_for_a_handle_that_is_gone(self):
        found, _, _ = self.run_client("""
codes = []
for channels in range(2, 6):
    own = c_void_p()
    assert cudnn.cudnnCreate(byref(own)) == 0
    codes.append(planned(0, lambda _: plain(own, channels))[0])
    assert cudnn.cudnnDestroy(own) == 0
print(json.dumps(codes + [planned(0, lambda own: plain(own, 9))[0]]))
""")
        self.assertEqual(found, [0] * 5)

    def test_sizes_that_are_not_ordinary_are_asked(self):
        found, lines, _ = self.run_client("""
tensor(1, (2, 3, 4, 5), packed((2, 3, 4, 5)))
codes = []
for dims, strides in (((2, 3, 4, -5), (60, 20, 5, 1)), ((2, 3, 4, 5), (1, 1, 1, 1)), ((2, 3, 4, 1 << 21), (60, 20, 5, 1)), ((4, 3, 2, 5), (30, 10, 5, 1))):
    own = make(TENSOR)
    codes += [put(own, *step) for step in ((901, DATA_TYPE, 0), (902, INT64, *dims), (903, INT64, *strides), (906, INT64, 1), (900, INT64, 16),
                                           (907, BOOLEAN, False), (908, BOOLEAN, False))]
    codes.append(cudnn.cudnnBackendFinalize(own))
print(json.dumps(codes))
""")
        self.assertEqual([found[7::8], set(found)], [[3002, 0, 0, 0], {0, 3002}])

    def test_a_refusal_is_told_where_it_is_met(self):
        found, _, _ = self.run_client("""
refused = planned(13)[0]
text = ctypes.create_string_buffer(100)
cudnn.cudnnGetLastErrorString(text, 100)
status, plan = planned(14)
fails = [run(plan, x, number, y) for _ in range(2)]
status, plan = planned(0)
print(json.dumps([refused, text.value.decode(), planned(13)[0], fails, run(plan, x, number, y)]))
""")
        self.assertEqual(found, [3000, "the fake refuses it", 3000, [3001, 3001], 0])

    def test_graphs_are_captured_and_not_offered_as_native(self):
        found, lines, _ = self.run_client("""
status, plan = planned(0)
engine = final(ENGINE, (1300, DESCRIPTOR, scaled(handle)), (1301, INT64, 0))
notes = get(engine, 1305, 19, 8), get(engine, 1305, 19, 1), count_of(engine, 1305, 19)
stream, graph = c_void_p(), c_void_p()
check(cuda.cuStreamCreate(byref(stream), 1))
cudnn.cudnnSetStream(handle, stream)
check(cuda.cuStreamBeginCapture_v2(stream, 2))
captured = run(plan, x, number, y)
ended = cuda.cuStreamEndCapture(stream, byref(graph))
pack = final(PACK, (1000, INT64, 1), (1001, POINTER, x.address))
native = [getattr(cudnn, f"cudnnBackend{how}CudaGraph")(handle, plan, pack, graph) for how in ("Populate", "Update")]
print(json.dumps([notes, captured, ended, native]))
""")
        self.assertEqual(found, [[[0, 2, [0, 1]], [0, 1, [0]], [0, 2]], 0, 0, [3013, 3013]])

    def test_descriptors_that_are_none_are_refused(self):
        found, _, _ = self.run_client("""
status, plan = planned(0)
gone, pack = make(PACK), final(PACK, (1000, INT64, 1), (1001, POINTER, x.address))
codes = [cudnn.cudnnBackendDestroyDescriptor(gone), cudnn.cudnnBackendDestroyDescriptor(gone), cudnn.cudnnBackendFinalize(gone),
         put(c_void_p(12345), 901, DATA_TYPE, 0), put(handle, 901, DATA_TYPE, 0)]
open_pack = make(PACK)
codes += [cudnn.cudnnBackendExecute(*args) for args in ((handle, plan, open_pack), (handle, pack, plan), (handle, gone, pack), (None, plan, pack),
                                                        (c_void_p(777), plan, pack))]
other = make(GRAPH)
codes += [put(other, 801, DESCRIPTOR, gone), put(other, 800, HANDLE, plan), run(plan, x, number, y)]
print(json.dumps(codes))
""")
        self.assertEqual(
            found, [0, 2000, 2000, 2000, 2000, 2004, 2012, 2002, 2000, 2000, 2000, 2000, 0]
        )

    def test_threads_plan_and_run_each_with_a_handle(self):
        found, lines, _ = self.run_client("""
context = c_void_p()
check(cuda.cuCtxGetCurrent(byref(context)))
out = []
def work(i):
    check(cuda.cuCtxSetCurrent(context))
    own, mine = c_void_p(), c_float(i)
    assert cudnn.cudnnCreate(byref(own)) == 0
    for _ in range(10):
        status, plan = planned(i % 2, lambda _: scaled(own))
        out.append([status, run(plan, x, mine, y)])
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
check(cuda.cuCtxSynchronize())
print(json.dumps(out))
""")
        self.assertEqual(found, [[0, 0]] * 40)
        ran = [line for line in lines if line.startswith("execute")]
        self.assertEqual([sum(f" 2={i} " in line for line in ran) for i in range(4)], [10] * 4)

    def test_a_forked_child_is_told_so(self):
        found, _, _ = self.run_client("""
status, plan = planned(0)
pack = final(PACK, (1000, INT64, 1, 2, 3), (1001, POINTER, x.address, c_void_p(ctypes.addressof(number)), y.address))
readable, writable = os.pipe()
if os.fork() == 0:
    os.write(writable, bytes([cudnn.cudnnCreate(byref(c_void_p())) // 10, cudnn.cudnnBackendExecute(handle, plan, pack) // 10]))
    os._exit(0)
os.wait()
print(json.dumps(list(os.read(readable, 2)) + [run(plan, x, number, y)]))
""")
        self.assertEqual(found, [100, 100, 0])


class Versions(unittest.TestCase):
    """Which of several libraries of one major a server takes."""

    def fake(self, path, version):
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                os.environ.get("FARCALL_CC", "cc"),
                "-shared",
                "-fPIC",
                f"-DFAKE_VERSION={version}",
                str(HERE / "fake_cudnn.c"),
                "-Wl,-soname,libcudnn.so.9",
                "-o",
                str(path),
            ],
            check=True,
        )

    def version_with(self, **environment):
        env = {
            **os.environ,
            "LD_LIBRARY_PATH": "",
            "CUDA_PATH": "",
            "FARCALL_LIBRARIES": "",
            **environment,
        }
        env["PATH"] = ":".join(
            place for place in env["PATH"].split(":") if not os.path.exists(f"{place}/nvcc")
        )
        with Server(environment=env) as server:
            client = {k: v for k, v in os.environ.items() if not k.startswith("FARCALL_")}
            client |= {
                "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
                "FARCALL_ENDPOINT": server.url,
            }
            text = "import ctypes; dnn = ctypes.CDLL('libcudnn.so.9'); dnn.cudnnGetVersion.restype = ctypes.c_size_t; print(dnn.cudnnGetVersion())"
            done = subprocess.run(
                [sys.executable, "-c", text],
                env=client,
                capture_output=True,
                text=True,
                timeout=120,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def test_the_newest_that_loads_is_taken_unless_a_folder_is_named(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            toolkit, venv = pathlib.Path(folder, "toolkit"), pathlib.Path(folder, "venv")
            self.fake(toolkit / "lib64/libcudnn.so.9.2.0", 90200)
            (toolkit / "lib64/libcudnn.so.9").symlink_to("libcudnn.so.9.2.0")
            site = venv / "lib/python3.11/site-packages"
            self.fake(site / "nvidia/cudnn/lib/libcudnn.so.9", 91000)
            info = site / "nvidia_cudnn_cu13-9.10.0.5.dist-info"
            info.mkdir()
            (info / "RECORD").write_text("nvidia/cudnn/lib/libcudnn.so.9,sha256=x,1\n")
            both = {"CUDA_HOME": str(toolkit), "VIRTUAL_ENV": str(venv)}
            self.assertEqual(self.version_with(**both), 91000)
            self.assertEqual(
                self.version_with(**both, FARCALL_LIBRARIES=str(toolkit / "lib64")), 90200
            )
            (site / "nvidia/cudnn/lib/libcudnn.so.9").write_bytes(b"no library")
            self.assertEqual(self.version_with(**both), 90200)


if __name__ == "__main__":
    unittest.main(verbosity=2)
