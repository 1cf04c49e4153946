# SPDX-License-Identifier: Apache-2.0
"""Less usual calls of the driver API through the wire: each subject is a program's part that checks its own results."""

import sys
import unittest

from harness import Server, run

SUBJECTS = ("legacy", "link", "green", "tools", "odds", "room", "memory", "arrays", "textures")


class Driver(unittest.TestCase):
    pass


def add(subject):
    def test(self):
        with Server() as server:
            client = run(server.url, "driver_calls", subject)
            self.assertEqual(
                (client.process.returncode, client.out[-1:]), (0, ["ok"]), (client.out, client.err)
            )

    setattr(Driver, f"test_{subject}", test)


class Printing(unittest.TestCase):
    """What a kernel printed is there when a call returns that ends its context or waits for it."""

    def test_nothing_is_lost_where_the_program_ends_at_once(self):
        with Server() as server:
            for how in ("sync", "reset", "destroy"):
                for _ in range(5):
                    client = run(server.url, "prints", how)
                    self.assertEqual(
                        (client.process.returncode, client.out),
                        (0, ["printed on the device"]),
                        (how, client.err),
                    )


class Exhaustion(unittest.TestCase):
    def refused_on(self, device, **environment):
        with Server("--mem", "128MiB", device=device) as server:
            client = run(server.url, "driver_calls", "exhaustion", environment=environment)
            self.assertEqual(
                (client.process.returncode, client.out[-1:]), (0, ["ok"]), (client.out, client.err)
            )

    def test_each_call_that_takes_memory_is_refused_as_cuda_refuses_it(self):
        self.refused_on("cpu")

    def test_on_the_dry_device_too(self):
        self.refused_on("dry")

    def test_if_each_call_waits(self):
        self.refused_on("cpu", FARCALL_SYNC="1")


class Multicast(unittest.TestCase):
    def bound_on(self, device, environment, **client_environment):
        with Server("--mem", "64MiB", device=device, environment=environment) as server:
            client = run(server.url, "driver_calls", "multicast", environment=client_environment)
            self.assertEqual(
                (client.process.returncode, client.out[-1:]), (0, ["ok"]), (client.out, client.err)
            )

    def test_memory_of_two_devices_is_bound_to_one_object(self):
        self.bound_on("cpu", {"FARCALL_CPU_DEVICES": "2"})

    def test_on_the_dry_device_too(self):
        self.bound_on("dry:h100", {"FARCALL_DRY_DEVICES": "2"})

    def test_if_each_call_waits(self):
        self.bound_on("cpu", {"FARCALL_CPU_DEVICES": "2"}, FARCALL_SYNC="1")


for name in SUBJECTS:
    add(name)

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
