# SPDX-License-Identifier: Apache-2.0
"""CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER in all their forms, against a server with two devices."""

import json
import pathlib
import subprocess
import sys
import unittest

from harness import FARCALL, KEPT, Server, run

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs/devices.py"
NO_DEVICE = {"init": 100}


class VisibleDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(device="dry", environment={"FARCALL_DRY_DEVICES": "2"})
        cls.uuids = cls.seen()["uuids"]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @classmethod
    def seen(cls, visible=None, **more):
        environment = dict(more) if visible is None else dict(more, CUDA_VISIBLE_DEVICES=visible)
        client = run(cls.server.url, sys.executable, PROGRAM, environment=environment)
        assert client.process.returncode == 0, (client.out, client.err)
        return json.loads(client.out[-1])

    def shows(self, visible, *devices, **more):
        """`devices` by the server's count; none: cuInit says that there is no device."""
        seen = self.seen(visible, **more)
        if not devices:
            self.assertEqual(seen, NO_DEVICE, visible)
            return
        self.assertEqual(seen["uuids"], [self.uuids[device] for device in devices], visible)
        self.assertEqual(
            seen["buses"], [f"0000:{device + 1:02X}:00.0" for device in devices], visible
        )
        self.assertEqual((seen["init"], seen["one_more"]), (0, 101), visible)

    def test_all_without_it(self):
        self.assertEqual(len(set(self.uuids)), 2)
        self.shows(None, 0, 1)

    def test_numbers(self):
        self.shows("0", 0)
        self.shows("1", 1)
        self.shows("0,1", 0, 1)
        self.shows("1,0", 1, 0)

    def test_none(self):
        for visible in ("", "-1", "2", "none", ",0", "-1,0"):
            self.shows(visible)

    def test_what_stands_before_the_first_that_is_none(self):
        for visible in ("1,2", "1,2,0", "1,-1,0", "1,,0", "1,", "1,abc,0"):
            self.shows(visible, 1)

    def test_uuids(self):
        first, second = ("GPU-" + uuid for uuid in self.uuids)
        self.shows(second, 1)
        self.shows(f"{second},{first}", 1, 0)
        self.shows(second.upper().replace("GPU", "gpu"), 1)
        self.shows(f"{second},0", 1)  # the first entry says what follows: numbers or UUIDs
        self.shows(f"0,{second}", 0)
        self.shows(second + "0")
        # These differ in their last letter: a shorter beginning names both, hence none.
        self.shows(second[:-1])
        self.shows(f"{first},{second[:12]}", 0)

    def test_parts_of_a_device(self):
        self.shows(f"MIG-GPU-{self.uuids[0]}/1/0")
        self.shows(f"1,MIG-{self.uuids[0]}", 1)

    def test_twice(self):
        self.shows("0,0")
        self.shows("1,0,1")
        self.shows(f"GPU-{self.uuids[0]},GPU-{self.uuids[0]}")

    def test_blanks(self):
        self.shows(" 1, 0 ", 1, 0)
        self.shows("1 ,0", 1, 0)
        self.shows("  ")

    def test_the_order_of_the_bus(self):
        self.shows("1,0", 1, 0, CUDA_DEVICE_ORDER="PCI_BUS_ID")
        self.shows(None, 0, 1, CUDA_DEVICE_ORDER="FASTEST_FIRST")


class ServersDevices(unittest.TestCase):
    def test_a_server_offers_what_gpus_lists(self):
        with Server(
            "--gpus", "1,0", device="dry", environment={"FARCALL_DRY_DEVICES": "3"}
        ) as server:

            def buses(**environment):
                return json.loads(
                    run(server.url, sys.executable, PROGRAM, environment=environment).out[-1]
                )["buses"]

            self.assertEqual(buses(), ["0000:02:00.0", "0000:01:00.0"])
            self.assertEqual(buses(CUDA_VISIBLE_DEVICES="1"), ["0000:01:00.0"])
            self.assertEqual(
                buses(CUDA_DEVICE_ORDER="PCI_BUS_ID"), ["0000:01:00.0", "0000:02:00.0"]
            )
            self.assertEqual(
                buses(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES="1"), ["0000:02:00.0"]
            )

    def test_a_private_server_leaves_the_list_to_the_program(self):
        done = subprocess.run(
            [FARCALL, "run", "--device", "dry", "--", sys.executable, PROGRAM],
            capture_output=True,
            text=True,
            env={
                "PATH": "/usr/bin:/bin",
                "FARCALL_DRY_DEVICES": "2",
                "CUDA_VISIBLE_DEVICES": "1",
                **KEPT,
            },
        )
        self.assertEqual(
            json.loads(done.stdout.splitlines()[-1])["buses"], ["0000:02:00.0"], done.stderr
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
