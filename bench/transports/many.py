# SPDX-License-Identifier: Apache-2.0
"""What many sessions of one server cost while they are idle, and how evenly they are served while
all ask at once.

    many.py [--json FILE] [--scheme tcp|shm] [--idle N] [--active N] [--seconds S]

FARCALL_BUILD names the build tree. One server of the dry device. Idle: N programs that hold 1 MiB
each and wait for their standard input; processor time and context switches of the programs and of
the server with its workers, after they have settled. Active: N programs that copy 4 bytes to the
host again and again, a round trip each, for S seconds; what the slowest, the median and the fastest
of them get. Exit code 0 whatever the figures are.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/session"))
from harness import BUILD, Server, memory_of, switches_of, until  # noqa: E402

SETTLE_S = 15.0  # a link falls idle 6 s after its last frame
ACTIVE = """
import ctypes, sys, time
cuda, word = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint32()
context, address = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096)) == 0
print("ready", flush=True)
sys.stdin.readline()
count, end = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    assert cuda.cuMemcpyDtoH_v2(ctypes.byref(word), address, ctypes.c_size_t(4)) == 0
    count += 1
print(count, flush=True)
"""


def processes_of(server):
    return [server.process.pid, *server.workers()]


def use_of(pids):
    """Processor seconds, context switches and PSS in MiB of some processes together."""
    seconds = switches = pss = 0
    for pid in pids:
        root = pathlib.Path(f"/proc/{pid}")
        fields = (root / "stat").read_text().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        switches += switches_of(pid)
        pss += memory_of(pid)[1]
    return seconds, switches, pss


def start(url, *command):
    env = dict(
        os.environ,
        FARCALL_ENDPOINT=url,
        LD_LIBRARY_PATH=str(BUILD / "lib/farcall"),
        FARCALL_TRANSPORT=url[:3],
        FARCALL_LOG="error",
    )
    return subprocess.Popen(
        [*map(str, command)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def idle(server, url, count, seconds):
    programs = []
    for number in range(count):
        programs.append(start(url, BUILD / "tests/session/hold", 1))
        line = programs[-1].stdout.readline().strip()
        if line != "held":
            raise SystemExit(f"program {number + 1} of {count}: {line}")
    time.sleep(SETTLE_S)
    sides = {"programs": [program.pid for program in programs], "server": processes_of(server)}
    before = {side: use_of(pids) for side, pids in sides.items()}
    time.sleep(seconds)
    rows = {}
    for side, pids in sides.items():
        used, switched, pss = use_of(pids)
        rows[side] = {
            "processes": len(pids),
            "seconds": round(used - before[side][0], 2),
            "switches": switched - before[side][1],
            "pss_mib": round(pss / len(pids), 2),
        }
    for program in programs:
        program.stdin.close()
    for program in programs:
        program.wait()
    until(lambda: not server.workers(), what="the sessions' end")
    return rows


def active(url, count, seconds):
    programs = [start(url, sys.executable, "-c", ACTIVE, seconds) for _ in range(count)]
    for program in programs:
        assert program.stdout.readline().strip() == "ready"
    for program in programs:
        program.stdin.write("\n")
        program.stdin.flush()
    counts = sorted(int(program.stdout.readline()) for program in programs)
    for program in programs:
        program.wait()
    return {
        "programs": count,
        "slowest": counts[0],
        "median": statistics.median(counts),
        "fastest": counts[-1],
        "all": sum(counts),
        "jain": round(sum(counts) ** 2 / (count * sum(number * number for number in counts)), 4),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--scheme", choices=["tcp", "shm"], default="tcp")
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--active", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    most = max(options.idle, options.active) + 8
    flags = ["--max-sessions", most, "--max-tenant-sessions", most]
    with tempfile.TemporaryDirectory() as folder:
        shm = f"{folder}/farcall.shm"
        with Server(*flags, "--shm", shm, device="dry") as server:
            url = f"shm://{shm}" if options.scheme == "shm" else server.url
            result = {"scheme": options.scheme, "seconds": options.seconds}
            if options.idle:
                result["idle"] = idle(server, url, options.idle, options.seconds)
            if options.active:
                result["active"] = active(url, options.active, options.seconds)
    print(f"\n{options.scheme}://, {options.seconds:.0f} s\n")
    if options.idle:
        print(
            "| idle | processes | processor seconds | context switches | PSS of each, MiB |\n|---|---|---|---|---|"
        )
        for side, row in result["idle"].items():
            print(
                f"| {side} | {row['processes']} | {row['seconds']} | {row['switches']} | {row['pss_mib']} |"
            )
    if options.active:
        row = result["active"]
        print(
            "\n| active programs | round trips: slowest | median | fastest | all | Jain's index |\n"
            "|---|---|---|---|---|---|"
        )
        print(
            f"| {row['programs']} | {row['slowest']} | {row['median']:.0f} | {row['fastest']} | "
            f"{row['all']} | {row['jain']} |"
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
