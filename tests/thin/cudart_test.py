# SPDX-License-Identifier: Apache-2.0
"""The thin libcudart against NVIDIA's: the same program, the same driver, the same lines; the same names; no more waits."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "session"))
from harness import BUILD, Client, Server, waits_but_for_memory  # noqa: E402

THIN = BUILD / "lib/farcall/thin"
DEVICE = BUILD / "lib/farcall/device"
REAL = pathlib.Path(os.environ["FARCALL_CUDART_SHARED"]).parent
NEWER = "cudaErrorCallRequiresNewerDriver"  # NVIDIA's word for a call that this driver lacks
LACKS = "cudaErrorNotSupported"  # ours

# Through Farcall alone: the client names an unknown attribute otherwise than the device, which NVIDIA's never asks.
REMOTE = {"cudaStreamSetAttribute(stream, static_cast<cudaStreamAttrID>(99), &value)"}


def lines_of(client):
    code = client.wait()
    assert code == 0 and client.out[-1:] == ["end"], (code, client.out[-3:], client.err[-5:])
    return client.out


def exported(path):
    """(name, version node) of each function defined in the library."""
    out = subprocess.run(
        ["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in out.splitlines())
    return {
        tuple(re.split("@+", row[7]))
        for row in rows
        if len(row) >= 8 and row[3] == "FUNC" and row[6] != "UND"
    }


def unexplained(real, ours):
    """Lines that differ though nothing says that they may, and the exceptions that explained one."""
    excepted = {
        line
        for line in (HERE / "cudart/exceptions.txt").read_text().splitlines()
        if line and line[0] != "#"
    }
    assert len(real) == len(ours), (len(real), len(ours))
    differ, used, call, skipped = [], set(), "", False
    for theirs, mine in zip(real, ours):
        if " -> " in theirs:
            call, skipped = theirs.split(" -> ")[0], theirs.endswith("-> killed")
        if theirs == mine or skipped:
            continue
        if theirs.replace(NEWER, LACKS) == mine:
            continue
        if call in excepted:
            used.add(call)
            continue
        differ.append((theirs, mine))
    return differ, used, excepted


class Cudart(unittest.TestCase):
    def trace(self, program, *folders, url="", **more):
        path = ":".join(str(folder) for folder in folders)
        return lines_of(
            Client(
                url, BUILD / "tests/thin" / program, environment={"LD_LIBRARY_PATH": path, **more}
            )
        )

    def compare(self, program):
        real = self.trace(program, REAL, DEVICE)
        ours = self.trace(program, THIN, DEVICE)
        differ, used, excepted = unexplained(real, ours)
        self.assertEqual(differ, [], "\n".join(f"NVIDIA's: {a}   ours: {b}" for a, b in differ))
        self.assertEqual(excepted - used, set(), "exceptions that no longer differ")
        names = {line.split("(")[0] for line in ours if " -> " in line}
        self.assertGreaterEqual(len(names), 260)

    def test_codes_values_and_last_errors_are_nvidias(self):
        self.compare("cudart_trace")

    def test_so_they_are_with_a_default_stream_per_thread(self):
        self.compare("cudart_trace_per_thread")

    def test_so_they_are_through_farcall(self):
        # Each call waits: else an error of a post is told by whichever call comes next.
        with Server() as server:
            real, ours = (
                self.trace(
                    "cudart_trace", path, BUILD / "lib/farcall", url=server.url, FARCALL_SYNC="1"
                )
                for path in (REAL, THIN)
            )
        differ = [
            row for row in unexplained(real, ours)[0] if row[0].split(" -> ")[0] not in REMOTE
        ]
        self.assertEqual(differ, [], "\n".join(f"NVIDIA's: {a}   ours: {b}" for a, b in differ))

    def test_a_program_waits_no_more_often(self):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            counts = []
            for path in (
                REAL,
                REAL,
                THIN,
            ):  # the first to find what each server's client keeps of the image
                stats = f"{folder}/stats.json"
                environment = {
                    "LD_LIBRARY_PATH": f"{path}:{BUILD}/lib/farcall",
                    "FARCALL_STATS": stats,
                }
                client = Client(
                    server.url, BUILD / "examples/vector_add_shared", environment=environment
                )
                self.assertEqual(client.wait(), 0, client.err[-5:])
                counts.append(json.loads(pathlib.Path(stats).read_text()))
        _, real, ours = counts
        self.assertLessEqual(waits_but_for_memory(ours), waits_but_for_memory(real), (ours, real))
        self.assertLessEqual(ours["posted"], real["posted"], (ours, real))
        self.assertLessEqual(ours["calls"]["cuMemAlloc_v2"]["waited"], 3)

    def test_every_name_is_exported_with_its_version_node(self):
        real, ours = exported(REAL / "libcudart.so.13"), exported(THIN / "libcudart.so.13")
        self.assertEqual(real - ours, set())
        listed = set((HERE.parents[1] / "codegen/cudart/libcudart.so.13.txt").read_text().split())
        self.assertEqual({name for name, *_ in ours}, listed)

    def test_the_older_major_has_its_names_and_node(self):
        listed = set((HERE.parents[1] / "codegen/cudart/libcudart.so.12.txt").read_text().split())
        self.assertEqual(
            exported(THIN / "libcudart.so.12"), {(name, "libcudart.so.12") for name in listed}
        )

    def test_the_older_major_answers_in_its_own_layouts(self):
        script = str(HERE / "cudart/major12.py")
        client = Client(
            "", sys.executable, script, environment={"LD_LIBRARY_PATH": f"{THIN}:{DEVICE}"}
        )
        self.assertEqual(client.wait(), 0, client.err[-5:])

    def test_nothing_but_libc_is_brought_in(self):
        out = subprocess.run(
            ["readelf", "-dW", THIN / "libcudart.so.13"], capture_output=True, text=True, check=True
        ).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", out))
        self.assertLessEqual(
            needed,
            {"libc.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"},
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
