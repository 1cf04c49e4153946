#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries what scripts/package made: `./scripts/package --test [deb] [images] [unittest arguments]`."""

import argparse
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PARTS = ("deb", "images")


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--packages", type=pathlib.Path, required=True, help="the folder with the packages"
    )
    options.add_argument(
        "--roots",
        type=pathlib.Path,
        default=SOURCE / "build/package/roots",
        help="where Debian roots are kept",
    )
    options.add_argument(
        "--program", type=pathlib.Path, default=SOURCE / "build/release/examples/vector_add"
    )
    options.add_argument(
        "parts", nargs="*", help="deb, images (default: all); then arguments of unittest"
    )
    given, rest = options.parse_known_args()
    parts = [part for part in given.parts if part in PARTS] or list(PARTS)
    rest = [part for part in given.parts if part not in PARTS] + rest
    assert (
        given.program.exists()
    ), f"{given.program} was not built: ./scripts/build release -- examples/vector_add"
    # An upgrade comes from the same files under a lower version.
    older = given.packages / "older"
    if "deb" in parts and not list(older.glob("*.deb")):
        tree = SOURCE / "build/package/tree"
        tree = tree if (tree / "bin/farcall").exists() else SOURCE / "build/release"
        subprocess.run(
            [
                SOURCE / "scripts/package",
                "--deb",
                "--version",
                "0.0.1",
                "--out",
                older,
                "--tree",
                tree,
            ],
            check=True,
        )
    environment = os.environ | {
        "FARCALL_PACKAGES": str(given.packages),
        "FARCALL_OLDER_PACKAGES": str(older),
        "FARCALL_ROOTS": str(given.roots),
        "FARCALL_PROGRAM": str(given.program),
    }
    failed = 0
    for part in parts:
        failed |= subprocess.run(
            [sys.executable, HERE / f"{part}_test.py", "-v", *rest], env=environment, check=False
        ).returncode
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
