# SPDX-License-Identifier: Apache-2.0
"""Quotas of memory on a real driver: that a context and machine code count, and that all that is free can be had."""

from __future__ import annotations

import re
from pathlib import Path

from harness import Results, Server, last_line, run

LIMIT_S = 90
QUOTA_MIB = 2048

# Run by an interpreter of its own: what is free of the quota at once, when the driver's count has been read, and in one piece.
PROGRAM = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
def must(code):
    assert code == 0, code
def free():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    must(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value
context, address = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)))
first = free()
time.sleep(6)
then = free()
whole = then // (2 << 20) * (2 << 20)
code = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(whole))
print(f"free {first >> 20} then {then >> 20} MiB, all of it at once: {code}")
assert code == 0
"""


def quota(
    results: Results, tree: Path, device: str, name: str, *flags: str
) -> tuple[int, int] | None:
    """MiB that were free at once and later; None: it failed, and has a row."""
    server = Server(results, tree, device, "--mem", f"{QUOTA_MIB}MiB", *flags, name=name)
    try:
        if not server.endpoint:
            return None
        code, seconds, text = run(
            ["python3", "-c", PROGRAM],
            results.work / f"{name}.log",
            results.left(LIMIT_S),
            server.env(name),
        )
        found = re.search(r"free (\d+) then (\d+) MiB", text)
        results.add(
            "memory",
            name,
            "farcall",
            "fail" if code or not found else "pass",
            seconds,
            last_line(text),
        )
        return (int(found.group(1)), int(found.group(2))) if found else None
    finally:
        server.close()


def run_all(results: Results, tree: Path, device: str) -> None:
    tenant, host = (
        quota(results, tree, device, "overhead-tenant"),
        quota(results, tree, device, "overhead-host", "--overhead", "host"),
    )
    if tenant is None or host is None:
        return
    log = (results.work / "server-overhead-tenant.log").read_text()
    unknown = re.search(r"is not known: .*", log)
    overhead = host[1] - tenant[1]
    has_none = re.search(r"serving .*Farcall (CPU|dry) device", log, re.IGNORECASE)
    state = "skip" if unknown or has_none else "pass" if overhead > 0 else "fail"
    note = (
        unknown.group(0)
        if unknown
        else "a software device has none"
        if has_none
        else f"contexts and machine code: {overhead} MiB"
    )
    results.add("memory", "what a context takes counts", "farcall", state, note=note)
