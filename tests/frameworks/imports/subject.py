# SPDX-License-Identifier: Apache-2.0
"""What a framework script uses: checks that run one by one, each saying what it could see.

    from subject import check, close, fact, main

    @check
    def matrices_multiply():
        close((a.cuda() @ b.cuda()).cpu(), a @ b)

    main()

The device is named by FARCALL_SUBJECT_DEVICE: `dry` executes no kernel, so `close` and `equal` compare nothing there but type
and shape, and say so; `cpu` and `cuda` compute, and values count. `fact` must hold everywhere. The result, one JSON
object, goes to FARCALL_SUBJECT_RESULT; without that, lines go to stdout.
"""

import contextlib
import json
import os
import re
import sys
import traceback

DEVICE = os.environ.get("FARCALL_SUBJECT_DEVICE", "cuda")
EXECUTES = DEVICE != "dry"
# A device that takes PTX only says so of kernels that exist as machine code alone. That is a limit of the device, and no
# other failure is put down to it.
NO_KERNEL = (
    "no kernel image is available for execution on the device",
    "cudaErrorNoKernelImageForDevice",
)

_checks = []
_values = 0
_notes = {}


class Skip(Exception):
    """This check has nothing to see here; says why."""


def check(function):
    _checks.append(function)
    return function


def fact(condition, text):
    if not condition:
        raise AssertionError(text)


def note(name, value):
    """A figure of the run for the table, such as peak memory."""
    _notes[name] = value


@contextlib.contextmanager
def marked(what):
    """A range whose waits and records the table tells; one a script."""
    import torch

    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    yield
    torch.cuda.profiler.stop()
    _notes["marked"] = what


def _same_form(got, want):
    fact(
        tuple(got.shape) == tuple(want.shape), f"shape {tuple(got.shape)}, not {tuple(want.shape)}"
    )
    fact(got.dtype == want.dtype, f"type {got.dtype}, not {want.dtype}")


def close(got, want, rtol=1e-4, atol=1e-5):
    """`got` came from the device. Compared where the device executes; on a dry one it only has to arrive."""
    global _values
    got = got.detach().cpu()
    _same_form(got, want)
    if EXECUTES:
        import torch

        torch.testing.assert_close(got, want.detach(), rtol=rtol, atol=atol)
        _values += got.numel()


def near(got, want, rtol=1e-5, atol=1e-6):
    """As `close`, for arrays of numpy and of what has a `get` (CuPy)."""
    global _values
    import numpy as np

    got, want = np.asarray(got.get() if hasattr(got, "get") else got), np.asarray(want)
    fact(got.shape == want.shape, f"shape {got.shape}, not {want.shape}")
    if EXECUTES:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        _values += got.size


def same(got, want):
    near(got, want, rtol=0, atol=0)


def equal(got, want):
    close(got, want, rtol=0, atol=0)


def exact(got, want):
    """For what no kernel touches, such as copies: the bytes are the same on every device, a dry one too."""
    global _values
    import torch

    got = got.detach().cpu()
    _same_form(got, want)
    fact(torch.equal(got, want), "the bytes that came back are not those that went out")
    _values += got.numel()


_lacked_image = False  # a check before lacked a kernel


def _why(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def _lacks_kernel(text):
    """CUDA 12's runtime says so once for a kernel's image; from then on it launches no function at all."""
    global _lacked_image
    lacks = any(words in text for words in NO_KERNEL) or (
        _lacked_image and "invalid resource handle" in text
    )
    _lacked_image |= lacks
    return lacks


def _run(function):
    global _values
    before = _values
    row = {"check": function.__name__.replace("_", " ")}
    try:
        function()
        row["state"] = "ran"
    except Skip as skip:
        row.update(state="skipped", why=str(skip))
    except Exception as error:  # noqa: BLE001  whatever it is, the table says it
        no_kernel = DEVICE == "cpu" and _lacks_kernel(str(error))
        row.update(state="no kernel" if no_kernel else "failed", why=_why(error))
        if not no_kernel and "FARCALL_SUBJECT_QUIET" not in os.environ:
            traceback.print_exc()
    row["values"] = _values - before
    return row


def _mapped():
    """Files that are named as CUDA's libraries, whoever made them."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        files = {line.split(None, 5)[5].strip() for line in maps if line.count("/")}
    named = re.compile(
        r"lib(cuda|cublas|cudnn|cufft|cusparse|cusolver|curand|nvrtc|nvJitLink|nccl|nvshmem|cupti|cufile|nvToolsExt|nvidia-ml)\w*[-.\w]*\.so"
    )
    return sorted(path for path in files if named.match(os.path.basename(path)))


def _keep(rows, running=None):
    path = os.environ.get("FARCALL_SUBJECT_RESULT")
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(
                {"checks": rows, "notes": _notes, "running": running, "mapped": _mapped()}, file
            )


def main():
    wanted, rows = sys.argv[1:], []
    for function in _checks:
        if not wanted or function.__name__ in wanted:
            _keep(
                rows, function.__name__.replace("_", " ")
            )  # stays there if the process dies in it
            rows.append(_run(function))
    _keep(rows)
    if "FARCALL_SUBJECT_RESULT" not in os.environ:
        for row in rows:
            print(
                f"{row['state']:10} {row['values']:9} {row['check']}{': ' + row['why'] if 'why' in row else ''}"
            )
        for name, value in _notes.items():
            print(f"{name}: {value}")
    sys.exit(any(row["state"] == "failed" for row in rows))
