#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""alone_test.py NAME LIBRARY: programs/NAME.py, which judges itself, with the thin library through a server on the CPU device.

Exit code 77 if NVIDIA's library, which the server would run, is not here."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])


def main():
    name, library = sys.argv[1:]
    nvcc = shutil.which("nvcc")
    folder = pathlib.Path(nvcc).resolve().parent.parent / "lib64" if nvcc else None
    if folder is None or not list(folder.glob(f"lib{library}.so.*")):
        print(f"skipped: no lib{library} beside nvcc")
        return 77
    environment = {**os.environ, "PYTHONPATH": str(HERE / "programs"), "FARCALL_LOG": "warn"}
    command = [
        BUILD / "bin/farcall",
        "run",
        "--thin",
        "--device",
        "cpu",
        "--",
        sys.executable,
        HERE / "programs" / f"{name}.py",
    ]
    return subprocess.run([str(word) for word in command], timeout=580, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
