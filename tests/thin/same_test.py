#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same_test.py NAME [DEVICE]: programs/NAME.py prints the same with NVIDIA's library on DEVICE (cpu) here as with the thin one through a server.
The library is NAME's up to an underline.

Exit code 77 if NVIDIA's library is not here."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
TOOLKIT = os.environ["FARCALL_TOOLKIT_LIBRARIES"]


def run(*command, path):
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": path,
        "PYTHONPATH": str(HERE / "programs"),
        "FARCALL_LOG": "warn",
    }
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment,
    )


def main():
    name = sys.argv[1]
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    library = name.split("_")[0]
    sonames = sorted(
        path.name
        for path in (BUILD / "lib/farcall/thin").glob("lib*.so.*")
        if path.name.lower().startswith(f"lib{library}.so")
    )
    soname = sonames[-1]  # of the newest major
    if not (pathlib.Path(TOOLKIT) / soname).exists():
        print(f"skipped: no {soname} in {TOOLKIT}")
        return 77
    program = [sys.executable, HERE / "programs" / f"{name}.py"]
    # Sister libraries switch together: one that was not built leaves NVIDIA's in their place.
    mapped = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); sys.exit('/lib/farcall/thin/' + sys.argv[1] not in open('/proc/self/maps').read())"
    ours = run(
        BUILD / "bin/farcall",
        "run",
        "--thin",
        "--device",
        device,
        "--",
        sys.executable,
        "-c",
        mapped,
        soname,
        path=TOOLKIT,
    )
    if ours.returncode != 0:
        print(f"{soname} is not Farcall's in thin mode: exit code {ours.returncode}\n{ours.stderr}")
        return 1
    # The CPU device's folder has an NVRTC of its own beside libcuda, as its server does; the dry one's has none.
    folder = BUILD / "lib/farcall/device" / ("dry" if device == "dry" else "")
    want = run(*program, path=f"{folder}:{TOOLKIT}")
    got = run(
        BUILD / "bin/farcall", "run", "--thin", "--device", device, "--", *program, path=TOOLKIT
    )
    if want.returncode != 0 or got.returncode != 0:
        print(
            f"with NVIDIA's: exit code {want.returncode}\n{want.stderr}\nthin: exit code {got.returncode}\n{got.stderr}"
        )
        return 1
    lines, ours = want.stdout.splitlines(), got.stdout.splitlines()
    differ = [(theirs, line) for theirs, line in zip(lines, ours) if theirs != line]
    for theirs, line in differ:
        print(f"NVIDIA's: {theirs}\nthin:     {line}\n")
    print(f"{len(lines)} lines, {len(ours)} of the thin library, {len(differ)} differ")
    return 1 if differ or not lines or len(lines) != len(ours) else 0


if __name__ == "__main__":
    sys.exit(main())
