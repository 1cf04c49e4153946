# SPDX-License-Identifier: Apache-2.0
"""pynvml on our libnvidia-ml.so.1: the devices of CUDA, the tenant's memory and processes, few round trips, honest refusals."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, KEPT, SANITIZER, Server  # noqa: E402

try:
    import pynvml  # noqa: F401
except ImportError:
    print("skipped: no pynvml (nvidia-ml-py) here: ./scripts/setup installs it")
    sys.exit(77)

LIBRARIES = BUILD / "lib/farcall"
# What each client starts with: pynvml, and the driver API by ctypes.
PRELUDE = """
import ctypes, json, os, sys, time
from pynvml import *
cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
def cu(status):
    assert status == 0, status
def context():
    cu(cuda.cuInit(0))
    handle = ctypes.c_void_p()
    cu(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(handle), 0))
    cu(cuda.cuCtxSetCurrent(handle))
def allocate(size):
    address = ctypes.c_uint64()
    cu(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
    return address
def cuda_memory():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cu(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value
def code(call, *arguments):
    try:
        call(*arguments)
    except NVMLError as error:
        return error.value
    return 0
"""


def environment(endpoint, **more):
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("FARCALL_") and k not in SANITIZER
    }
    env |= KEPT
    env |= {"LD_LIBRARY_PATH": str(LIBRARIES), "FARCALL_LOG": "error"}
    if endpoint:
        env["FARCALL_ENDPOINT"] = endpoint
    return env | more


def start(endpoint, text, **more):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + text],
        env=environment(endpoint, **more),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def client(endpoint, text, **more):
    """Runs a client; what it printed, as JSON."""
    process = start(endpoint, text, **more)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, (process.returncode, out, err)
    return json.loads(out.splitlines()[-1])


class Nvml(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(environment={"FARCALL_CPU_DEVICES": "2", "FARCALL_CPU_MEM": "2GiB"})

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def client(self, text, **more):
        return client(self.server.url, text, **more)

    def test_every_function_of_the_header_is_there(self):
        ids = (HERE.parents[1] / "codegen/ids/nvml.ids").read_text()
        names = [line.split()[1] for line in ids.splitlines() if line and not line.startswith("#")]
        out = self.client(
            f"library = ctypes.CDLL('libnvidia-ml.so.1')\nnames = {names!r}\n"
            "print(json.dumps([name for name in names if not hasattr(library, name)]))"
        )
        self.assertEqual(out, [])

    def test_devices_are_those_of_cuda(self):
        out = self.client("""
nvmlInit()
cu(cuda.cuInit(0))
rows = []
for i in range(nvmlDeviceGetCount()):
    handle = nvmlDeviceGetHandleByIndex(i)
    uuid, name, bus = (ctypes.c_ubyte * 16)(), ctypes.create_string_buffer(128), ctypes.create_string_buffer(64)
    total, major, minor = ctypes.c_size_t(), ctypes.c_int(), ctypes.c_int()
    cu(cuda.cuDeviceGetUuid_v2(uuid, i)); cu(cuda.cuDeviceGetName(name, 128, i)); cu(cuda.cuDeviceGetPCIBusId(bus, 64, i))
    cu(cuda.cuDeviceTotalMem_v2(ctypes.byref(total), i))
    cu(cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, i)); cu(cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, i))
    pci = nvmlDeviceGetPciInfo(handle)
    again = [nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(handle)), nvmlDeviceGetHandleByPciBusId(pci.busId),
             nvmlDeviceGetHandleByPciBusId(bus.value.decode())]
    rows.append({"nvml": [nvmlDeviceGetUUID(handle).replace("-", "")[3:], nvmlDeviceGetName(handle), pci.busIdLegacy.lower(),
                          nvmlDeviceGetMemoryInfo(handle).total, list(nvmlDeviceGetCudaComputeCapability(handle))],
                 "cuda": [bytes(uuid).hex(), name.value.decode(), bus.value.decode().lower(), total.value,
                          [major.value, minor.value]],
                 "index": [nvmlDeviceGetIndex(found) for found in again] + [nvmlDeviceGetIndex(handle)]})
version = ctypes.c_int()
cu(cuda.cuDriverGetVersion(ctypes.byref(version)))
print(json.dumps([rows, nvmlSystemGetCudaDriverVersion() == version.value, nvmlSystemGetDriverVersion()]))
""")
        rows, same_version, driver = out
        self.assertEqual(len(rows), 2)
        for index, row in enumerate(rows):
            self.assertEqual(row["nvml"], row["cuda"])
            self.assertEqual(row["index"], [index] * 4)
        self.assertTrue(same_version)
        self.assertRegex(driver, r"^\d+\.\d+")

    def test_cuda_visible_devices_hides_nothing(self):
        out = self.client(
            """
nvmlInit()
uuid, count = (ctypes.c_ubyte * 16)(), ctypes.c_int()
cu(cuda.cuInit(0)); cu(cuda.cuDeviceGetCount(ctypes.byref(count))); cu(cuda.cuDeviceGetUuid_v2(uuid, 0))
print(json.dumps([nvmlDeviceGetCount(), count.value, bytes(uuid).hex(),
                  nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(1)).replace("-", "")[3:]]))
""",
            CUDA_VISIBLE_DEVICES="1",
        )
        self.assertEqual(out[:2], [2, 1])
        self.assertEqual(out[2], out[3])

    def test_memory_follows_this_processes_own_calls(self):
        out = self.client("""
nvmlInit()
handle = nvmlDeviceGetHandleByIndex(0)
def look():
    memory, second = nvmlDeviceGetMemoryInfo(handle), nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2)
    free, total = cuda_memory()
    return [memory.used, memory.free == free == second.free, memory.total == total == second.total, memory.used == second.used]
context()
rows = [look()]
first = allocate(100 * MIB); rows.append(look())
second = allocate(300 * MIB); rows.append(look())
cu(cuda.cuMemFree_v2(first)); rows.append(look())
cu(cuda.cuMemFree_v2(second)); rows.append(look())
print(json.dumps(rows))
""")
        self.assertEqual([row[0] >> 20 for row in out], [0, 100, 400, 300, 0])
        self.assertEqual([row[1:] for row in out], [[True] * 3] * 5)

    def test_total_is_the_quota(self):
        out = self.client(
            "nvmlInit()\nmemory = nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0))\n"
            "print(json.dumps([memory.total, memory.free, memory.used]))",
            FARCALL_MEM="256MiB",
        )
        self.assertEqual(out, [256 << 20, 256 << 20, 0])

    HOLDER = """
context()
held = allocate(64 * MIB)
cu(cuda.cuCtxSynchronize())
print(os.getpid(), flush=True)
sys.stdin.readline()
"""
    WATCHER = """
nvmlInit()
handle = nvmlDeviceGetHandleByIndex(0)
rows = [[p.pid, p.usedGpuMemory] for p in nvmlDeviceGetComputeRunningProcesses(handle)]
print(json.dumps([rows, nvmlDeviceGetMemoryInfo(handle).used, nvmlDeviceGetGraphicsRunningProcesses(handle)]))
"""

    def watch(self, **watcher):
        holder = start(self.server.url, self.HOLDER, FARCALL_VGPU="one")
        try:
            pid = int(holder.stdout.readline())
            return pid, self.client(self.WATCHER, **watcher)
        finally:
            holder.communicate("\n", timeout=60)

    def test_processes_and_memory_of_the_same_tenant_are_seen(self):
        pid, (rows, used, graphics) = self.watch(FARCALL_VGPU="one")
        self.assertEqual([row[0] for row in rows], [pid])
        self.assertGreaterEqual(rows[0][1], 64 << 20)
        self.assertEqual(used, rows[0][1])
        self.assertEqual(graphics, [])

    def test_processes_and_memory_of_others_are_not(self):
        _, (rows, used, _) = self.watch(FARCALL_VGPU="two")
        self.assertEqual((rows, used), ([], 0))

    def test_own_process_is_listed_with_what_it_allocated(self):
        out = self.client("""
nvmlInit()
context()
held = allocate(96 * MIB)
rows = nvmlDeviceGetComputeRunningProcesses(nvmlDeviceGetHandleByIndex(0))
print(json.dumps([[p.pid == os.getpid(), p.usedGpuMemory] for p in rows]))
""")
        self.assertEqual(out, [[True, 96 << 20]])

    def test_refusals(self):
        out = self.client("""
codes = {"before": [code(nvmlDeviceGetCount), code(nvmlShutdown)]}
nvmlInit(); nvmlInit()
handle = nvmlDeviceGetHandleByIndex(0)
bad = ctypes.cast(ctypes.c_void_p(0x1234), type(handle))
library = ctypes.CDLL("libnvidia-ml.so.1")
short, old = ctypes.create_string_buffer(4), c_nvmlMemory_v2_t(version=0x1000001)
clock = ctypes.c_uint()
codes["arguments"] = [
    code(nvmlDeviceGetHandleByIndex, 2), code(nvmlDeviceGetHandleByUUID, "GPU-0"), code(nvmlDeviceGetHandleByPciBusId, "?"),
    code(nvmlDeviceGetName, bad), code(nvmlDeviceGetMaxClockInfo, bad, 0), code(nvmlDeviceGetMemoryInfo, None),
    library.nvmlDeviceGetName(handle, short, 4), library.nvmlDeviceGetName(handle, None, 4),
    library.nvmlSystemGetDriverVersion(short, 1), library.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(old)),
    library.nvmlDeviceGetMaxClockInfo(handle, 0, None), library.nvmlDeviceGetMaxClockInfo(handle, 77, ctypes.byref(clock)),
    library.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(ctypes.c_uint(0))),
    library.nvmlDeviceGetFieldValues(handle, -1, None)]
codes["device"] = [code(nvmlDeviceGetTemperature, handle, 0), code(nvmlDeviceGetPowerUsage, handle),
                   code(nvmlDeviceGetFanSpeed, handle), code(nvmlDeviceGetNvLinkState, handle, 0),
                   code(nvmlDeviceGetFieldValues, handle, [1, 2])]
codes["tenant"] = [code(nvmlDeviceSetPowerManagementLimit, handle, 100000), code(nvmlDeviceSetPersistenceMode, handle, 1),
                   code(nvmlDeviceGetSerial, handle), code(nvmlDeviceGetCpuAffinity, handle, 1)]
codes["count"] = [code(nvmlShutdown), code(nvmlDeviceGetCount), code(nvmlShutdown), code(nvmlDeviceGetCount), code(nvmlShutdown)]
codes["text"] = [nvmlErrorString(3), nvmlErrorString(12345)]
print(json.dumps(codes))
""")
        uninitialized, invalid, unsupported, forbidden, absent, short, version = (
            1,
            2,
            3,
            4,
            6,
            7,
            25,
        )
        self.assertEqual(out["before"], [uninitialized] * 2)
        self.assertEqual(
            out["arguments"],
            [
                invalid,
                absent,
                invalid,
                invalid,
                invalid,
                invalid,
                short,
                invalid,
                short,
                version,
                invalid,
                invalid,
                version,
                invalid,
            ],
        )
        self.assertEqual(out["device"], [unsupported] * 5)
        self.assertEqual(out["tenant"], [forbidden] * 2 + [unsupported] * 2)
        self.assertEqual(out["count"], [0, 0, 0, uninitialized, uninitialized])
        self.assertEqual(out["text"], ["Not Supported", "Unknown Error"])

    ROUNDS = """
nvmlInit()
handles = [nvmlDeviceGetHandleByIndex(i) for i in range(nvmlDeviceGetCount())]
for _ in range({rounds}):
    for handle in handles:
        memory = nvmlDeviceGetMemoryInfo(handle)
        nvmlDeviceGetComputeRunningProcesses(handle); nvmlDeviceGetName(handle); nvmlDeviceGetMaxClockInfo(handle, 0)
        for ask in (nvmlDeviceGetUtilizationRates, nvmlDeviceGetPowerUsage, nvmlDeviceGetEncoderUtilization):
            code(ask, handle)
        code(nvmlDeviceGetTemperature, handle, 0); code(nvmlDeviceGetClockInfo, handle, 1)
    end = time.monotonic() + 0.2  # until every answer has grown old
    while time.monotonic() < end: time.sleep(0.05)
print(json.dumps(memory.total))
"""

    def round_trips(self, text):
        with tempfile.TemporaryDirectory() as folder:
            stats = pathlib.Path(folder) / "stats"
            self.client(text, FARCALL_STATS=str(stats))
            return json.loads(stats.read_text())["round_trips"]

    def test_a_monitors_round_is_one_round_trip_a_device(self):
        # A machine that is busy lets answers grow old in the middle of a round: that adds, and never takes away.
        few, many = (
            min(self.round_trips(self.ROUNDS.format(rounds=rounds)) for _ in range(3))
            for rounds in (3, 13)
        )
        self.assertEqual(many - few, 20)

    def test_what_never_changes_is_asked_once(self):
        text = """
nvmlInit()
handle = nvmlDeviceGetHandleByIndex(0)
for _ in range({times}):
    nvmlDeviceGetName(handle); nvmlDeviceGetUUID(handle); nvmlDeviceGetPciInfo(handle); nvmlSystemGetDriverVersion()
    nvmlDeviceGetMaxClockInfo(handle, 0); code(nvmlDeviceGetMaxPcieLinkGeneration, handle); code(nvmlDeviceGetNumFans, handle)
print(json.dumps(0))
"""
        self.assertEqual(
            self.round_trips(text.format(times=1)), self.round_trips(text.format(times=50))
        )

    def test_cuda_in_a_child_of_a_process_that_asked_nvml_only(self):
        out = self.client("""
nvmlInit()
count = nvmlDeviceGetCount()
reader, writer = os.pipe()
if os.fork() == 0:
    context()
    held = allocate(32 * MIB)
    answer = [nvmlDeviceGetCount(), nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0)).used >> 20]
    os.write(writer, json.dumps(answer).encode()); os._exit(0)
os.wait()
print(json.dumps([count, json.loads(os.read(reader, 1000)), nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0)).used]))
""")
        self.assertEqual(out, [2, [2, 32], 0])

    def test_a_child_forked_after_cuinit_has_neither(self):
        out = self.client("""
nvmlInit()
context()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, json.dumps([code(nvmlDeviceGetCount), cuda.cuCtxSynchronize()]).encode()); os._exit(0)
os.wait()
print(json.dumps([json.loads(os.read(reader, 1000)), nvmlDeviceGetCount()]))
""")
        self.assertEqual(out, [[1, 3], 2])

    def test_without_a_server_the_driver_is_not_loaded(self):
        self.assertEqual(
            client(
                None, "print(json.dumps(code(nvmlInit)))", FARCALL_LOG="off", HOME="/nonexistent"
            ),
            9,
        )

    def test_a_server_that_goes_takes_the_devices_with_it(self):
        with Server() as server:
            process = start(
                server.url,
                """
nvmlInit()
handle = nvmlDeviceGetHandleByIndex(0)
print(code(nvmlDeviceGetPowerUsage, handle), flush=True)
sys.stdin.readline()
end = time.monotonic() + 60
while code(nvmlDeviceGetMemoryInfo, handle) == 0 and time.monotonic() < end: time.sleep(0.05)
print(json.dumps([code(nvmlDeviceGetMemoryInfo, handle), code(nvmlDeviceGetCount)]))
""",
                FARCALL_LOG="off",
            )
            self.assertEqual(process.stdout.readline(), "3\n")
            server.stop()
            out, _ = process.communicate("\n", timeout=120)
        self.assertEqual(json.loads(out), [15, 15])

    def test_the_device_itself_answers_without_remoting(self):
        out = client(
            None,
            """
nvmlInit()
context()
handle = nvmlDeviceGetHandleByIndex(0)
before = nvmlDeviceGetMemoryInfo(handle).used
held = allocate(64 * MIB)
memory = nvmlDeviceGetMemoryInfo(handle)
print(json.dumps([nvmlDeviceGetName(handle), memory.used - before, (memory.free, memory.total) == cuda_memory(),
                  code(nvmlDeviceGetTemperature, handle, 0)]))
""",
            LD_LIBRARY_PATH=str(LIBRARIES / "device"),
        )
        self.assertEqual(out, ["Farcall CPU Device", 64 << 20, True, 3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
