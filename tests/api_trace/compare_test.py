# SPDX-License-Identifier: Apache-2.0
"""The trace of return codes is the same on the CPU device and through Farcall, but for exceptions.txt."""

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


def call_of(lines):
    """For each line the call it belongs to: its own, or the one whose value it prints."""
    calls = []
    for line in lines:
        calls.append(line.rsplit(" -> ")[0] if " -> " in line else calls[-1] if calls else "")
    return calls


class Trace(unittest.TestCase):
    def test_return_codes_agree_locally_and_remotely(self):
        devices = {"FARCALL_CPU_DEVICES": "2"}  # one has no multicast objects
        local = lines_of(
            Client(
                "",
                TRACE,
                environment={"LD_LIBRARY_PATH": str(BUILD / "lib/farcall/device"), **devices},
            )
        )
        with Server(environment=devices) as server:
            remote = lines_of(Client(server.url, TRACE))
        excepted = {
            line
            for line in (HERE / "exceptions.txt").read_text().splitlines()
            if line and line[0] != "#"
        }
        self.assertEqual(len(local), len(remote))
        differ = [
            (call, here, there)
            for call, here, there in zip(call_of(local), local, remote)
            if here != there
        ]
        unexplained = [row for row in differ if row[0] not in excepted]
        self.assertEqual(
            unexplained, [], "\n".join(f"{c}: device: {a}   remote: {b}" for c, a, b in unexplained)
        )
        used = {call for call, _, _ in differ}
        self.assertEqual(excepted - used, set(), "exceptions that no longer differ")
        names = {line.split()[0] for line in local if " -> " in line}
        self.assertGreaterEqual(len(names), 285)


if __name__ == "__main__":
    unittest.main(verbosity=2)
