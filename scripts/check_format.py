#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Formats C, C++ and CUDA sources by .clang-format, and leaves out braces around a body of one
statement where LLVM's rule does.

  scripts/check_format.py [--fix] FILES...     names those that are not so; --fix makes them so

clang-format 14 lays out lambdas differently while it removes braces, so it runs twice."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "clang-format-14"


def style(**more):
    """.clang-format as one argument."""
    lines = (ROOT / ".clang-format").read_text().splitlines()
    keys = [line for line in lines if line and not line.startswith(("#", "---"))]
    keys += [f"{key}: {value}" for key, value in more.items()]
    return "--style={" + ", ".join(keys) + "}"


def formatted(path, text, passes):
    for one in passes:
        run = subprocess.run(
            [PROGRAM, one, f"--assume-filename={path}"], input=text, stdout=subprocess.PIPE
        )
        if run.returncode != 0:
            sys.exit(f"{PROGRAM} failed at {path}")
        text = run.stdout
    return text


def main():
    arguments = sys.argv[1:]
    fixes = arguments[:1] == ["--fix"]
    passes = [style(RemoveBracesLLVM="true"), style()]

    def look(path):
        text = pathlib.Path(path).read_bytes()
        after = formatted(path, text, passes)
        if after == text:
            return None
        if fixes:
            pathlib.Path(path).write_bytes(after)
        return path

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path in pool.map(look, arguments[1:] if fixes else arguments):
            if path and not fixes:
                print(path)


if __name__ == "__main__":
    main()
