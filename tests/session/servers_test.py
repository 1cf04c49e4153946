# SPDX-License-Identifier: Apache-2.0
"""Several servers as one list of devices: FARCALL_ENDPOINT=tcp://a,tcp://b."""

import json
import subprocess
import sys
import unittest

from harness import BUILD, FARCALL, Client, Server, run


NVML = """
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
count = ctypes.c_uint()
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
for index in range(count.value):
    device, uuid, number = ctypes.c_void_p(), ctypes.create_string_buffer(96), ctypes.c_uint()
    memory = (ctypes.c_ulonglong * 3)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetUUID(device, uuid, 96) == 0
    assert nvml.nvmlDeviceGetIndex(device, ctypes.byref(number)) == 0 and number.value == index
    assert nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
    print(uuid.value.decode(), memory[0])
"""


class Servers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [Server(), Server(environment={"FARCALL_CPU_DEVICES": "2"})]
        cls.urls = ",".join(server.url for server in cls.servers)

    @classmethod
    def tearDownClass(cls):
        for server in cls.servers:
            server.stop()

    def runs(self, what, urls=None, **options):
        client = run(urls or self.urls, "servers", what, **options)
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        self.assertEqual(client.out[-1], "ok", (client.out, client.err))
        return client.out[:-1]

    def test_one_list(self):
        lines = self.runs("list")
        devices = [line.split() for line in lines if not line.startswith("peer")]
        self.assertEqual([bus.split(":")[0] for bus, _ in devices], ["0000", "1000", "1000"])
        self.assertEqual(len({bus for bus, _ in devices}), 3)
        self.assertEqual(len({uuid for _, uuid in devices}), 3)
        peers = {
            (int(a), int(b)): can
            for _, a, b, can in (line.split() for line in lines if line.startswith("peer"))
        }
        for across in ((0, 1), (1, 0), (0, 2), (2, 0)):
            self.assertEqual(peers[across], "0", across)

    def test_nvml_sees_the_same_list(self):
        if not (BUILD / "lib/farcall/libnvidia-ml.so.1").exists():
            self.skipTest("built without NVML")
        lines = self.runs("list")
        uuids = [line.split()[1] for line in lines if not line.startswith("peer")]
        client = run(self.urls, sys.executable, "-c", NVML, environment={"FARCALL_MEM": "64MiB"})
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        seen = [line.split() for line in client.out]
        self.assertEqual([uuid.removeprefix("GPU-").replace("-", "") for uuid, _ in seen], uuids)
        self.assertEqual([total for _, total in seen], [str(64 << 20)] * 3)

    def test_visible_devices_are_of_the_joint_list(self):
        lines = self.runs("list", environment={"CUDA_VISIBLE_DEVICES": "2,0"})
        self.assertEqual([line.split(":")[0] for line in lines[:2]], ["1000", "0000"])

    def test_each_computes(self):
        self.runs("compute")

    def test_each_device_of_one_server_has_its_own_variables(self):
        self.runs("compute", urls=self.servers[1].url)

    def test_devices_of_one_server_copy_without_peer_access(self):
        self.runs("copies", urls=self.servers[1].url)

    def test_copies_between_servers(self):
        self.runs("copies")

    def test_a_wait_parks_one_stream(self):
        self.runs("waits")

    def test_page_locked_memory(self):
        self.runs("pinned")

    def test_what_is_refused(self):
        self.runs("refused")

    def test_limits_hold_on_each(self):
        lines = self.runs("memory", environment={"FARCALL_MEM": "64MiB"})
        self.assertEqual([line.split()[2] for line in lines], [str(64 << 20)] * 3)

    def test_a_list_of_one_is_that_server(self):
        self.runs("list", urls=self.servers[0].url)

    def test_a_server_that_is_lost_takes_its_devices_along(self):
        other = Server("--grace", "1")
        urls = f"{other.url},{self.servers[0].url}"
        client = Client(urls, "servers", "lost", stdin=subprocess.PIPE)
        client.wait_line("ready")
        other.process.kill()
        client.process.stdin.close()
        client.wait()
        self.assertEqual(client.process.returncode, 0, (client.out, client.err))
        self.assertEqual(client.out[-1], "ok")
        other.stop()

    def test_one_that_cannot_be_reached_is_named(self):
        client = run(f"{self.servers[0].url},tcp://127.0.0.1:1", "servers", "list")
        self.assertNotEqual(client.process.returncode, 0)
        self.assertIn("tcp://127.0.0.1:1", "\n".join(client.err))

    def test_one_server_by_two_names(self):
        url = self.servers[0].url
        for other in (url, url.replace("127.0.0.1", "localhost")):
            client = run(f"{url},{other}", "servers", "list")
            self.assertNotEqual(client.process.returncode, 0, other)
            self.assertIn("twice" if other == url else "once", "\n".join(client.err))

    def test_lists_that_are_none(self):
        for text in ("tcp://a,pool://b", ",".join(f"tcp://h{i}" for i in range(17)), "tcp://a,:"):
            client = run(text, "servers", "list")
            self.assertNotEqual(client.process.returncode, 0, text)

    def test_devices_lists_all(self):
        shown = subprocess.run(
            [FARCALL, "devices", "--endpoint", self.urls, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(len(json.loads(shown.stdout)), 3)
        self.assertEqual(
            [bus in shown.stdout for bus in ("0000:01", "1000:01", "1000:02")], [True] * 3
        )

    def test_doctor_lists_all(self):
        shown = subprocess.run(
            [FARCALL, "doctor", "--endpoint", self.urls, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        devices = json.loads(shown.stdout)["devices"]
        self.assertEqual(
            sorted({device["endpoint"] for device in devices}), sorted(self.urls.split(","))
        )
        self.assertEqual(len(devices), 3)


if __name__ == "__main__":
    unittest.main()
