#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Passes each argument of each function of the driver API as null, zero, negative, too large and destroyed, and compares the
code with those that cuda.h documents for the function.

    sweep.py LIBRARY --header cuda.h [--only REGEX] [--all]     one line for each difference; --all: for each call

A difference is a code that the function's comment does not list, success where an argument is null,
negative, too large (2^31 - 1) or destroyed, a process that ends and a call that does not return.
Sizes and counts of the caller's own arrays are not made larger than they are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import reference

HERE = Path(__file__).resolve().parent
CALL_LIMIT_S = 20.0
INTEGERS = {
    "int",
    "unsigned int",
    "unsigned",
    "size_t",
    "unsigned long long",
    "cuuint32_t",
    "cuuint64_t",
    "float",
}
DESTROYED = {
    "CUcontext",
    "CUstream",
    "CUevent",
    "CUmodule",
    "CUlibrary",
    "CUgraph",
    "CUgraphNode",
    "CUgraphExec",
    "CUmemoryPool",
    "CUarray",
    "CUmipmappedArray",
    "CUlinkState",
    "CUgreenCtx",
    "CUdeviceptr",
    "CUmemGenericAllocationHandle",
    "CUtexObject",
    "CUsurfObject",
}
OTHER_HANDLES = {"CUfunction", "CUkernel", "CUuserObject", "CUtexref"}
BY_VALUE = {"CUipcEventHandle", "CUipcMemHandle", "CUmemLocation"}  # structures
# How many elements of the caller's own memory there are: a larger one is read, as it says.
COUNT = re.compile(
    r"^(num|count|len|buflen|numOptions|nbResources|nbGroups|ByteCount|paramCount|.*Count|size|numBytes|.*[sS]ize)",
    re.I,
)
# Other processes, the interop of other APIs, and what ends the run.
LEFT_OUT = re.compile(
    r"^cu(Graphics|Checkpoint|Profiler|Coredump|GL|EGL|VDPAU)|^cu(Init|DevicePrimaryCtxReset|CtxResetPersistingL2Cache)$"
)


# A stream that waits for a value that never comes ends no later call.
WAITED_FOR = re.compile(r"^cuStreamWaitValue")


def values_of(function: str, kind: str, name: str) -> list[str]:
    if WAITED_FOR.search(function) and name == "value":
        return ["zero"]
    plain = kind.replace("const ", "").strip()
    if plain in DESTROYED:
        return ["null", "destroyed", "foreign"]
    if plain in OTHER_HANDLES:
        return ["null", "foreign"]
    if plain.endswith("*"):
        return ["null"]
    if plain in INTEGERS or plain == "CUdevice":
        return ["zero"] if COUNT.match(name) or plain == "float" else ["zero", "minus one", "large"]
    return ["null"] if plain.endswith(("Fn", "Callback", "B2DSize")) else ["minus one", "large"]


def cases_of(functions, only):
    cases = []
    for function in functions.values():
        if LEFT_OUT.search(function.name) or not only.search(function.name):
            continue
        if any(kind in BY_VALUE for kind, _ in function.parameters):
            continue
        for position, (kind, name) in [(-1, ("", "")), *enumerate(function.parameters)]:
            for what in ["usual"] if position < 0 else values_of(function.name, kind, name):
                cases.append((function.name, function.symbol, function.parameters, position, what))
    return cases


def lines_of(process, pipe):
    """Lines of the child; ends where it does, or where one call takes too long."""
    text, deadline = b"", time.monotonic() + CALL_LIMIT_S
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            process.kill()
            yield "late"
            return
        piece = os.read(pipe, 65536)
        if not piece:
            return
        *whole, text = (text + piece).split(b"\n")
        for line in whole:
            deadline = time.monotonic() + CALL_LIMIT_S
            yield line.decode()


def run(library: str, cases) -> dict[int, str]:
    results, first, library = {}, 0, str(Path(library).resolve())
    folder = tempfile.TemporaryDirectory(prefix="farcall-sweep-")  # some calls write files
    payload = json.dumps(cases).encode()
    while first < len(cases):
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [sys.executable, str(HERE / "child.py"), library, str(first)],
            stdin=subprocess.PIPE,
            cwd=folder.name,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.dup2(writer, 3),
            pass_fds=(3, writer),
        )
        os.close(writer)
        process.stdin.write(payload)
        process.stdin.close()
        at, ended = first, "ends the process"
        for line in lines_of(process, reader):
            if line == "late":
                ended = "does not return"
                break
            number, word, *rest = line.split(" ", 2)
            at = int(number)
            if word == "code":
                results[at], at = rest[0], at + 1
            elif word == "skipped":
                results[at], at = "skipped " + rest[0], at + 1
        process.wait()
        os.close(reader)
        if at < len(cases):
            results[at] = ended
            at += 1
        first = at
    return results


def verdict(function, kind: str, what: str, result: str, codes) -> str | None:
    """What is to be judged about it; None: nothing."""
    if result in ("ends the process", "does not return"):
        return result
    if result.startswith("skipped"):
        return None
    name = codes.get(int(result), result)
    if name == "CUDA_SUCCESS":
        wrong = what in ("destroyed", "foreign", "minus one", "large") or (
            what == "null" and kind.replace("const ", "").strip() not in ("CUstream",)
        )
        return "success" if wrong else None
    return None if name in function.codes or what == "usual" else name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--header", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    functions, codes = reference.read(Path(options.header))
    cases = cases_of(functions, re.compile(options.only))
    results = run(options.library, cases)
    differences = 0
    for number, (name, _, parameters, position, what) in enumerate(cases):
        result = results.get(number, "skipped")
        kind, argument = parameters[position] if position >= 0 else ("", "-")
        difference = verdict(functions[name], kind, what, result, codes)
        differences += difference is not None
        if options.all:
            print(
                name,
                argument,
                what.replace(" ", "-"),
                codes.get(int(result), result) if result.isdigit() else result,
                sep="\t",
            )
        elif difference is not None:
            print(name, argument, what.replace(" ", "-"), difference, sep="\t")
    print(
        f"{len(cases)} calls, {len({case[0] for case in cases})} functions, {differences} differences",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
