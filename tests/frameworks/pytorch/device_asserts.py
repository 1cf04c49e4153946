# SPDX-License-Identifier: Apache-2.0
"""An assertion on the device is an error of the process, told by name."""

import subprocess
import sys

from subject import EXECUTES, Skip, check, fact, main

PROGRAM = """
import torch
try:
    torch.nn.functional.embedding(torch.tensor([99]).cuda(), torch.randn(5, 4).cuda())
    torch.cuda.synchronize()
    print("nothing")
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
try:
    torch.zeros(1, device="cuda").cpu()
    print("went on")
except Exception as error:
    print("sticky", str(error).splitlines()[0])
"""


def _run():
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )


@check
def a_bad_index_is_a_device_side_assert():
    if not EXECUTES:
        raise Skip("no kernel runs, so none asserts")
    done = _run()
    if "no kernel image" in done.stdout:
        raise RuntimeError("no kernel image is available for execution on the device")
    fact("device-side assert" in done.stdout, done.stdout + done.stderr[-300:])
    fact("sticky" in done.stdout, "the context went on after an assertion")


@check
def the_process_ends_by_itself():
    fact(_run().returncode == 0, "the process did not end well")


main()
