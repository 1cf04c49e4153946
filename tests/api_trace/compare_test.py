# SPDX-License-Identifier: Apache-2.0
"""The trace of return codes is the same on the CPU device and through Farcall, but for exceptions.txt."""
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, Client, Server  # noqa: E402

TRACE = BUILD / "tests/api_trace/api_trace"


def lines_of(client):
    code = client.wait()
    assert code == 0, (code, client.out[-3:], client.err[-5:])
    return client.out


class Trace(unittest.TestCase):
    def test_return_codes_agree_locally_and_remotely(self):
        local = lines_of(Client("", TRACE, environment={"LD_LIBRARY_PATH": str(BUILD / "lib/farcall/device")}))
        with Server() as server:
            remote = lines_of(Client(server.url, TRACE))
        excepted = {line for line in (HERE / "exceptions.txt").read_text().splitlines() if line and line[0] != "#"}
        self.assertEqual(len(local), len(remote))
        differ = [(here, there) for here, there in zip(local, remote) if here != there]
        unexplained = [pair for pair in differ if pair[0].rsplit(" -> ")[0] not in excepted]
        self.assertEqual(unexplained, [], "\n".join(f"device: {a}   remote: {b}" for a, b in unexplained))
        used = {here.rsplit(" -> ")[0] for here, _ in differ}
        self.assertEqual(excepted - used, set(), "exceptions that no longer differ")
        names = {line.split()[0] for line in local if " -> " in line}
        self.assertGreaterEqual(len(names), 120)


if __name__ == "__main__":
    unittest.main(verbosity=2)
