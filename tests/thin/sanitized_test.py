#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sanitized_test.py PROGRAM...: programs of programs/ with instrumented thin libraries, against the server of a build without sanitizers, as
NVIDIA's libraries under a sanitizer's runtime take too long. A finding ends the program that has it.

Exit code 77 if there is no such server, or NVIDIA's libraries are not here."""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["FARCALL_BUILD"])
PLAIN = pathlib.Path(os.environ["FARCALL_PLAIN_BUILD"])
SANITIZER = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")


def main():
    farcall = PLAIN / "bin/farcall"
    if not farcall.exists():
        print(f"skipped: no server without sanitizers, {farcall}")
        return 77
    bare = {
        name: value
        for name, value in os.environ.items()
        if name not in SANITIZER and not name.startswith("FARCALL_")
    }
    instrumented = {**bare, **{name: os.environ[name] for name in SANITIZER if name in os.environ}}
    failed = 0
    with (
        tempfile.NamedTemporaryFile("w+") as log,
        subprocess.Popen(
            [farcall, "serve", "--device", "cpu", "--listen", "tcp://127.0.0.1:0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=bare,
        ) as server,
    ):
        try:
            url = next(
                word for word in server.stdout.readline().split() if word.startswith("tcp://")
            ).rstrip(",")
            for name in sys.argv[1:]:
                environment = {
                    **instrumented,
                    "FARCALL_ENDPOINT": url,
                    "FARCALL_LIBRARY_CACHE": "0",
                    "PYTHONPATH": str(HERE / "programs"),
                    "LD_LIBRARY_PATH": f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
                }
                mapped = "import atexit, sys; atexit.register(lambda: print('mapped:', '{0}/lib/farcall/thin/lib' in open('/proc/self/maps').read(), file=sys.stderr))"
                program = f"{mapped.format(BUILD)}\nimport runpy; runpy.run_path({str(HERE / 'programs' / (name + '.py'))!r}, run_name='__main__')"
                done = subprocess.run(
                    [sys.executable, "-c", program],
                    capture_output=True,
                    text=True,
                    timeout=150,
                    env=environment,
                )
                lines = done.stdout.splitlines()
                if done.returncode != 0 and "cannot open shared object file" in done.stderr:
                    print(f"skipped: {done.stderr.splitlines()[-1]}")
                    return 77
                ok = (
                    done.returncode == 0 and "mapped: True" in done.stderr.splitlines()
                )  # ours, not one that the loader has elsewhere
                failed += not ok
                print(
                    f"{name}: {len(lines)} lines, exit code {done.returncode}"
                    + ("" if ok else f"\n{done.stdout[-500:]}\n{done.stderr[-4000:]}"),
                    flush=True,
                )
        finally:
            server.terminate()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
