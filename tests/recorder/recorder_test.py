# SPDX-License-Identifier: Apache-2.0
"""A program's calls of the driver are the same directly and through Farcall, by the rules of rules.py.

FARCALL_KEEP_LOGS=DIR keeps the two logs there, direct.log and remote.log.
"""

import dataclasses
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "session")]
from call_log import read_log, session_of  # noqa: E402
from compare import Comparison  # noqa: E402
from equivalence import Difference  # noqa: E402
from harness import BUILD, Client, Server  # noqa: E402

TRACE = BUILD / "tests/api_trace/api_trace"
RECORDER = BUILD / "tests/recorder/farcall/device"
DEVICE = BUILD / "lib/farcall/device/libcuda.so.1"
LEAST_FUNCTIONS = 150


def recorded(log):
    return {"FARCALL_RECORD_NEXT": str(DEVICE), "FARCALL_RECORD_FILE": str(log)}


def finish(client):
    code = client.wait()
    assert code == 0, (code, client.out[-3:], client.err[-5:])


class Recorder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(
            tempfile.mkdtemp(dir="/dev/shm")
        )  # a worker may write there with --trust-tenants
        self.addCleanup(shutil.rmtree, self.folder)

    def logs(self):
        direct, remote = self.folder / "direct.log", self.folder / "remote.log"
        finish(
            Client("", TRACE, environment={"LD_LIBRARY_PATH": str(RECORDER), **recorded(direct)})
        )
        with Server(
            "--trust-tenants", device=RECORDER / "libcuda.so.1", environment=recorded(remote)
        ) as server:
            finish(Client(server.url, TRACE))
        kept = os.environ.get("FARCALL_KEEP_LOGS")
        if kept:
            shutil.copytree(self.folder, kept, dirs_exist_ok=True)
        return read_log(direct), read_log(remote)

    def test_direct_and_remote_logs_are_the_same(self):
        direct, remote = self.logs()
        self.check_that_changes_show(direct, remote)
        comparison = Comparison(direct, remote)
        comparison.run()
        print(f"\n{len(direct)} calls directly, {len(remote)} on the server's device")
        for reason, count in sorted(comparison.counts.items()):
            print(f"{count:6} {reason}")
        print(
            f"{sum(comparison.matched.values()):6} arrived, of {len(comparison.matched)} functions"
        )
        self.assertEqual(comparison.unused(), [], "rules that took no call")
        self.assertGreaterEqual(len(comparison.matched), LEAST_FUNCTIONS)

    def test_devices_are_named_as_the_server_counts(self):
        log = self.folder / "devices.log"
        with Server(
            "--trust-tenants",
            device=RECORDER / "libcuda.so.1",
            environment=recorded(log) | {"FARCALL_CPU_DEVICES": "3"},
        ) as server:
            finish(Client(server.url, TRACE, environment={"CUDA_VISIBLE_DEVICES": "2"}))
        named = {
            (call.name, call.arguments["dev"])
            for call in session_of(read_log(log))
            if "dev" in call.arguments
        }
        self.assertEqual({device for _, device in named}, {"n:2"}, named)
        self.assertLessEqual(
            {
                "cuCtxCreate_v4",
                "cuDevicePrimaryCtxRetain",
                "cuDevicePrimaryCtxReset_v2",
                "cuDeviceGetExecAffinitySupport",
                "cuDeviceGetTexture1DLinearMaxWidth",
                "cuKernelSetAttribute",
                "cuKernelSetCacheConfig",
            },
            {name for name, _ in named},
        )

    def check_that_changes_show(self, direct, remote):
        """A call too few, too many, late or with another argument is found, wherever rules could hide it."""
        fills = [
            i
            for i, call in enumerate(remote)
            if call.name == "cuMemsetD32Async" and call.result == 0
        ]
        at = fills[len(fills) // 2]
        other = dataclasses.replace(remote[at], arguments=remote[at].arguments | {"ui": "n:123456"})
        moved = dataclasses.replace(
            remote[at], arguments=remote[at].arguments | {"dstDevice": "a:0x77"}
        )
        changed = {
            "too few": remote[:at] + remote[at + 1 :],
            "too many": remote[:at] + [remote[at]] + remote[at:],
            "other value": remote[:at] + [other] + remote[at + 1 :],
            "other address": remote[:at] + [moved] + remote[at + 1 :],
            "late": remote[:at] + remote[at + 1 :] + [remote[at]],
        }
        for change, log in changed.items():
            with self.subTest(change), self.assertRaises(Difference):
                Comparison(direct, log).run()


if __name__ == "__main__":
    unittest.main(verbosity=2)
