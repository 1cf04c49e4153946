#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The line that a program's terminal shows while it waits: a budget makes its copies slow."""

import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, Server

LINE = re.compile(r"\rfarcall: (copying (?:to|from) the device), (\d+) of 24 MiB, \d+ s\x1b\[K")
FIRST_RUN = re.compile(
    r"\rfarcall: the CPU device compiles and runs spin for the first time, \d+ s\x1b\[K"
)
CLEARED = "\r\x1b[K"

# A kernel that runs for two seconds by the device's clock, launched and waited for twice.
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin()
{
  .reg .u64 %t<4>;
  .reg .pred %p;
  mov.u64 %t1, %globaltimer;
  add.u64 %t1, %t1, 2000000000;
again:
  mov.u64 %t2, %globaltimer;
  setp.lt.u64 %p, %t2, %t1;
  @%p bra again;
  ret;
}
"""
SPIN = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
def check(status):
    assert status == 0, status
context, module, kernel = (ctypes.c_void_p() for _ in range(3))
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuModuleLoadData(ctypes.byref(module), sys.argv[1].encode()))
check(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"spin"))
for turn in (b"first", b"second"):
    check(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None))
    check(cuda.cuCtxSynchronize())
    os.write(2, turn)
print("right")
"""


class Progress(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name)

    def copy(self, rate, **environment):
        """What a copy of 24 MiB up and down wrote to a terminal that is its stderr; its stdout."""
        command = [BUILD / "tests/session/big_copy", "24"]
        return self.program(command, FARCALL_NET=rate, **environment)

    def program(self, command, **environment):
        """What a program wrote to a terminal that is its stderr; its stdout."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            env={
                **os.environ,
                "TERM": "xterm",
                "LD_LIBRARY_PATH": str(BUILD / "lib/farcall"),
                "FARCALL_ENDPOINT": self.server.url,
                "FARCALL_CACHE_DIR": str(self.cache),
                **environment,
            },
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                got = os.read(master, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not got:
                break
            shown += got
        out, _ = process.communicate()
        self.assertEqual(process.returncode, 0, shown)
        return shown.decode(), out

    def test_a_slow_copy_shows_how_far_it_is_and_leaves_nothing(self):
        shown, out = self.copy("12MB/s")
        self.assertEqual(out, "right\n", "stdout is the program's own")
        self.assertEqual(
            {step for step, _ in LINE.findall(shown)},
            {"copying to the device", "copying from the device"},
            shown,
        )
        self.assertTrue(shown.endswith(CLEARED), shown)
        self.assertEqual(LINE.sub("", shown).replace(CLEARED, ""), "", "nothing else")

    def test_the_first_run_of_a_kernel_is_named_and_the_second_is_not(self):
        shown, out = self.program([sys.executable, "-c", SPIN, PTX])
        self.assertEqual(out, "right\n")
        first, _, second = shown.rpartition("first")
        self.assertRegex(first, FIRST_RUN)
        self.assertTrue(first.endswith(CLEARED), shown)
        self.assertEqual(second, "second", "a kernel that has run is compiled")

    def test_it_can_be_turned_off(self):
        for environment in ({"FARCALL_PROGRESS": "off"}, {"FARCALL_LOG": "off"}, {"TERM": "dumb"}):
            shown, out = self.copy("12MB/s", **environment)
            self.assertEqual((shown, out), ("", "right\n"), environment)

    def test_another_word_is_told_of(self):
        shown, out = self.copy("1GB/s", FARCALL_PROGRESS="yes")
        self.assertIn("FARCALL_PROGRESS=yes must be auto or off", shown)
        self.assertEqual(out, "right\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
