# SPDX-License-Identifier: Apache-2.0
"""Makes the calls of the sweep that stdin lists, and says before and after each where it is: a call may end the process."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from ctypes import c_float, c_uint64, c_void_p

from objects import Objects

INTEGERS = {
    "int",
    "unsigned int",
    "unsigned",
    "size_t",
    "unsigned long long",
    "cuuint32_t",
    "cuuint64_t",
    "unsigned char",
    "unsigned short",
}
NODES = ("Kernel", "Memcpy", "Memset", "Host", "ChildGraph", "EventRecord", "EventWait")
SCRATCH_STRINGS = {
    "name": b"k",
    "fileName": b"/nothing/here",
    "fname": b"/nothing/here",
    "path": b"/nothing/here",
    "symbol": b"cuInit",
    "pciBusId": b"0000:01:00.0",
}


def plain(kind):
    return kind.replace("const ", "").strip()


def usual(objects, function, kind, name):
    """A value that the call may well take."""
    base = plain(kind)
    if base == "CUgraphNode":
        wanted = next((node for node in NODES if f"{node}Node" in function), "Empty")
        return objects.a_node(wanted)
    if base in objects.makers:
        return objects.live(base)
    if base == "char*":
        return objects.scratch(SCRATCH_STRINGS.get(name, b"k"))
    if base.endswith("*"):
        inner = base[:-1].strip()
        if inner in objects.makers and kind.startswith("const"):
            return objects.scratch(objects.live(inner).to_bytes(8, "little"))
        return objects.structure(inner)
    if base in (
        "CUhostFn",
        "CUstreamCallback",
        "CUasyncCallback",
        "CUlogsCallback",
        "CUoccupancyB2DSize",
    ):
        return ctypes.cast(objects.host_function, c_void_p).value
    if base == "CUdevice":
        return 0
    if base == "size_t":
        return 16
    return (
        1
        if base in INTEGERS
        and ("dim" in name.lower() or "width" in name.lower() or "height" in name.lower())
        else 0
    )


def value_of(objects, kind, what):
    if what == "destroyed":
        return objects.destroyed(plain(kind))
    if what == "foreign":
        return objects.foreign()
    return {"null": 0, "zero": 0, "minus one": (1 << 64) - 1, "large": 0x7FFFFFFF}[what]


def main():
    library, first = sys.argv[1], int(sys.argv[2])
    cases = json.load(sys.stdin)
    out = os.fdopen(3, "w", buffering=1)
    objects = Objects(library)
    for number in range(first, len(cases)):
        function, symbol, parameters, position, what = cases[number]
        try:
            values = [
                usual(objects, function, kind, name) if at != position else 0
                for at, (kind, name) in enumerate(parameters)
            ]
            if position >= 0:  # last: nothing may take the place of what is destroyed
                values[position] = value_of(objects, parameters[position][0], what)
            arguments = [
                c_float(value) if plain(kind) == "float" else c_uint64(value or 0)
                for value, (kind, _) in zip(values, parameters)
            ]
        except RuntimeError as error:
            print(number, "skipped", error, file=out)
            continue
        print(number, "calls", file=out)
        code = getattr(objects.cu, symbol)(*arguments)
        print(number, "code", code, file=out)
        objects.cu.cuCtxSetCurrent(c_void_p(objects.context))
        if len(objects.kept) > 64:
            objects.kept = objects.kept[-64:]


main()
