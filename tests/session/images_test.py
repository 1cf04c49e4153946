# SPDX-License-Identifier: Apache-2.0
"""Kernel images in the forms nvcc writes them, through the wire; the programs check their values."""

import sys
import tempfile
import unittest

from harness import HERE, Server, run


class Images(unittest.TestCase):
    def ran(self, *command, device="cpu", **environment):
        with Server(device=device) as server:
            client = run(server.url, *command, environment=environment)
            self.assertEqual(client.process.returncode, 0, client.err)
            return client

    def test_units_of_relocatable_code_are_linked_at_the_load(self):
        self.assertEqual(self.ran("units_ptx").out, ["0"])

    def test_beside_machine_code_that_this_device_does_not_take(self):
        self.assertEqual(self.ran("units").out, ["0"])

    def test_if_each_call_waits(self):
        self.assertEqual(self.ran("units_ptx", FARCALL_SYNC="1").out, ["0"])

    def test_kernels_found_before_there_is_a_context_take_their_parameters(self):
        for when in ("early", "late"):
            with (
                self.subTest(when),
                tempfile.TemporaryDirectory() as fresh,
            ):  # nothing is known of the image
                client = self.ran(
                    sys.executable, HERE / "programs/early.py", when, FARCALL_CACHE_DIR=fresh
                )
                self.assertEqual(client.out, ["42"])

    def loads_tile_ir(self, device):
        client = self.ran(sys.executable, HERE / "programs/tile_ir.py", device=device)
        calls = client.stats()["calls"]
        waited = [calls[name]["waited"] for name in ("cuModuleLoadData", "cuLibraryLoadData")]
        return client.out, sum(waited), "\n".join(client.err)

    def test_tile_ir_is_refused_at_the_call_for_a_device_that_executes_none(self):
        out, waited, log = self.loads_tile_ir("cpu")
        self.assertEqual((out, waited), (["200 200"], 0))
        self.assertIn("CUDA Tile IR, which this device does not execute", log)

    def test_other_devices_are_handed_it(self):
        out, waited, log = self.loads_tile_ir("dry")
        self.assertEqual((out, waited), (["200 200"], 2), log)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
