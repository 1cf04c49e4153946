#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CUDA programs in an old image (Debian bullseye, glibc 2.31) into which only lib/farcall is copied.

  sudo tests/portable/old_image.py --make      makes build/old-image with debootstrap (network), then runs
  sudo tests/portable/old_image.py             runs in it

The server is outside, on the CPU device, over TCP; the programs run in a chroot as nobody, with three variables set.
Exit code 77: could not be tried here, and the line printed says why.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSIDE = "opt/farcall-test"
CASES = [
    "ordered-threads",
    "many-threads",
    "host-functions",
    "fork-after-init",
    "fork-before-init",
    "exit-busy",
    "overwritten-source",
]
LIMIT_S = 120


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def make(image):
    tool = shutil.which("debootstrap") or "/usr/sbin/debootstrap"
    if not os.access(tool, os.X_OK):
        skip("no debootstrap here: apt-get install debootstrap")
    print(f"making {image} with debootstrap", flush=True)
    image.mkdir(parents=True, exist_ok=True)
    if (
        subprocess.run([tool, "--variant=minbase", "bullseye", str(image)], check=False).returncode
        != 0
    ):
        skip("debootstrap could not make a bullseye image (network?)")


def fill(image, tree, cudart):
    """Copies what a user's image would hold: lib/farcall without the server's device, the programs, NVIDIA's libcudart."""
    inside = image / INSIDE
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(
        tree / "lib/farcall",
        inside / "lib/farcall",
        symlinks=True,
        ignore=shutil.ignore_patterns("device"),
    )
    for name in [
        "portable_stand_ins",
        "portable_vector_add_static",
        "portable_vector_add_shared",
        "portable_client_checks",
    ]:
        shutil.copy(tree / "tests/portable" / name, inside)
    (inside / "bin").mkdir()
    shutil.copy(tree / "bin/farcall", inside / "bin")
    (inside / "cudart").mkdir()
    shutil.copy(os.path.realpath(cudart), inside / "cudart/libcudart.so.13")


class Server:
    def __init__(self, tree):
        self.process = subprocess.Popen(
            [
                tree / "bin/farcall",
                "serve",
                "--listen",
                "tcp://127.0.0.1:0",
                "--device",
                "cpu",
                "--log-level",
                "warn",
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        found = re.search(r" on (tcp://[^\s,]+)", line)
        assert found, f"no ready line but {line!r}"
        self.url = found.group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def run_inside(image, endpoint, *command):
    # A mount namespace of its own, for /proc, as a container has it.
    words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t proc proc "$1/proc" && exec chroot --userspec=65534:65534 "$@"',
        "sh",
        str(image),
        f"/{INSIDE}/{command[0]}",
        *command[1:],
    ]
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LD_LIBRARY_PATH": f"/{INSIDE}/lib/farcall:/{INSIDE}/cudart",
        "FARCALL_ENDPOINT": endpoint,
        "FARCALL_CACHE_DIR": "/tmp/farcall-cache",
    }
    done = subprocess.run(
        ["/usr/bin/env", "-i", *[f"{key}={value}" for key, value in environment.items()], *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    print(
        f"{' '.join(command)}: exit code {done.returncode}\n  "
        + (done.stdout + done.stderr).strip().replace("\n", "\n  "),
        flush=True,
    )
    return done


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--tree", type=pathlib.Path, default=ROOT / "build/release")
    options.add_argument("--image", type=pathlib.Path, default=ROOT / "build/old-image")
    options.add_argument(
        "--cudart",
        help="NVIDIA's libcudart.so.13",
        default=str(ROOT / "build/release/examples/lib/libcudart.so.13"),
    )
    options.add_argument("--make", action="store_true", help="make the image if it is missing")
    given = options.parse_args()
    if os.geteuid() != 0:
        skip("chroot needs root")
    if not (given.image / "bin/sh").exists():
        if not given.make:
            skip(
                f"no old image in {given.image}: sudo tests/portable/old_image.py --make (needs debootstrap and the network)"
            )
        make(given.image)
    given.image = given.image.resolve()
    loader = subprocess.run(
        ["unshare", "--mount", "chroot", str(given.image), "/sbin/ldconfig", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    if loader.returncode != 0:
        skip(f"unshare and chroot into {given.image} do not work here: {loader.stderr.strip()}")
    print("image:", loader.stdout.splitlines()[0])
    fill(given.image, given.tree, given.cudart)
    failed = []
    with Server(given.tree) as server:
        runs = [
            ("portable_stand_ins",),
            ("portable_vector_add_static",),
            ("portable_vector_add_shared",),
            ("bin/farcall", "env"),
            ("bin/farcall", "doctor"),
            ("bin/farcall", "run", "--", f"/{INSIDE}/portable_vector_add_static"),
        ]
        runs += [("portable_client_checks", case) for case in CASES]
        for command in runs:
            if run_inside(given.image, server.url, *command).returncode != 0:
                failed.append(" ".join(command))
    print(f"failed: {', '.join(failed)}" if failed else f"{len(runs)} of {len(runs)} runs passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
