#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random kernels with barriers, loops, conditions, shuffles, trees and histograms on the CPU device alone, each against the same on the host.

    random_blocks.py [--seeds FIRST[:COUNT] ...] [--kernels N] [--code full|quick|both] [--build build/release] [--nvcc NVCC] [--keep DIR]

A seed is one program of N kernels (random_blocks/), always the same one. Prints a line per seed; exit code 1 where a value differs, a
program fails or does not end. --keep leaves the programs in DIR, else they go."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
from random_blocks import program  # noqa: E402  (the package: it goes before this file)

FLAGS = ["-arch=compute_90", "-code=compute_90", "-Xcompiler", "-fwrapv", "-w"]
LIMIT_S = 120


def find_nvcc():
    home = os.environ.get("CUDA_HOME")
    return shutil.which("nvcc", path=f"{home}/bin" if home else None) or shutil.which("nvcc")


def seeds_of(text):
    """FIRST[:COUNT] as numbers."""
    first, _, count = text.partition(":")
    return range(int(first), int(first) + int(count or 1))


def build(nvcc, folder, seed, kernels):
    source = folder / f"{seed}.cu"
    source.write_text(program(seed, kernels))
    plain = {
        name: value for name, value in os.environ.items() if name != "LD_PRELOAD"
    }  # a sanitizer's is for the programs
    subprocess.run([nvcc, *FLAGS, "-o", source.with_suffix(""), source], env=plain, check=True)
    return source.with_suffix("")


def run(path, device, code):
    """The first line that says what is wrong, or nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FARCALL_")}
    env = kept | {"LD_LIBRARY_PATH": str(device), "FARCALL_CPU_CODE": code, "FARCALL_CPU_CACHE": ""}
    try:
        done = subprocess.run(
            [path], env=env, capture_output=True, text=True, errors="replace", timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    lines = (done.stdout + done.stderr).splitlines() or ["no output"]
    return f"{lines[0]} (exit code {done.returncode})" if done.returncode else None


def check(args, folder, codes):
    """What differs, a line each."""
    wrong = []
    for seed in (seed for seeds in args.seeds for seed in seeds):
        path = build(args.nvcc, folder, seed, args.kernels)
        found = [
            f"seed {seed}, {code} code: {said}"
            for code in codes
            if (said := run(path, args.build / "lib/farcall/device", code))
        ]
        print(
            "\n".join(found)
            or f"seed {seed}: {args.kernels} kernels as on the host, {' and '.join(codes)} code",
            flush=True,
        )
        wrong += found
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds", type=seeds_of, nargs="+", default=[range(1, 11)], metavar="FIRST[:COUNT]"
    )
    parser.add_argument("--kernels", type=int, default=12)
    parser.add_argument("--code", choices=("full", "quick", "both"), default="both")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--nvcc", default=find_nvcc())
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    args = parser.parse_args()
    args.build = args.build.resolve()
    if not args.nvcc:
        sys.exit("no nvcc: set CUDA_HOME, have it on PATH, or say --nvcc")
    codes = ("full", "quick") if args.code == "both" else (args.code,)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        wrong = check(args, folder.resolve(), codes)
    programs = sum(map(len, args.seeds))
    print(
        f"{programs} programs of {args.kernels} kernels, {len(wrong)} of {programs * len(codes)} runs wrong"
        + (f"; the first: {wrong[0]}" if wrong else "")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
