# SPDX-License-Identifier: Apache-2.0
"""The tables of CUDA's documented behaviour, in driver mode and in thin mode, on a private server and over a slow link."""

import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, Client, Server, proxy_of  # noqa: E402

PROGRAM = BUILD / "tests/conformance/conformance"
CUDART = pathlib.Path(os.environ["FARCALL_CUDART_SHARED"]).parent
FOLDERS = {
    "driver": [CUDART, BUILD / "lib/farcall"],
    "thin": [BUILD / "lib/farcall/thin", BUILD / "lib/farcall"],
}
TABLES = sorted(path.stem for path in (HERE / "tables").glob("*.yaml"))
DELAY_S = 0.01  # each way


class Conformance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def check(self, endpoint, mode):
        if mode == "thin" and not (BUILD / "lib/farcall/thin").exists():
            self.skipTest("no thin libcudart in this build")
        for table in TABLES:
            with self.subTest(table=table, mode=mode):
                client = Client(
                    endpoint,
                    PROGRAM,
                    table,
                    environment={"LD_LIBRARY_PATH": ":".join(map(str, FOLDERS[mode]))},
                )
                code = client.wait()
                summary = re.fullmatch(
                    r"(\d+) passed, (\d+) failed", client.out[-1] if client.out else ""
                )
                self.assertTrue(summary, (code, client.out[-5:], client.err[-5:]))
                self.assertEqual((code, summary.group(2)), (0, "0"), "\n" + "\n".join(client.out))
                self.assertGreater(int(summary.group(1)), 0, "a table without rows")

    def test_driver_mode(self):
        self.check(self.server.url, "driver")

    def test_thin_mode(self):
        self.check(self.server.url, "thin")

    def test_driver_mode_over_a_slow_link(self):
        proxy = proxy_of(self.server, delay_s=DELAY_S)
        self.addCleanup(proxy.close)
        self.check(proxy.url, "driver")

    def test_thin_mode_over_a_slow_link(self):
        proxy = proxy_of(self.server, delay_s=DELAY_S)
        self.addCleanup(proxy.close)
        self.check(proxy.url, "thin")


if __name__ == "__main__":
    unittest.main(verbosity=2)
