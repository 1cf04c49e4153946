#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies between devices of two servers, through the client, beside raw TCP of the same run.

    ./scripts/bench servers [--rounds N] [--json FILE]

Two servers on the CPU device and the client share this machine's processors and its loopback: each
byte crosses it twice, so twice the raw time is the least there is without a direct connection.
"""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FARCALL_BUILD", ROOT / "build/release"))
MIB = 1 << 20
SIZES = (1 * MIB, 64 * MIB, 256 * MIB)


def check(result):
    if result != 0:
        sys.exit(f"a call of the driver answered {result}")


def client(rounds):
    """In a process of the client's: seconds of each copy, by size."""
    cuda = ctypes.CDLL("libcuda.so.1")
    check(cuda.cuInit(0))
    contexts, memory = [], []
    for device in (0, 1):
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(cuda.cuCtxSetCurrent(context))
        check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(SIZES))))
        check(cuda.cuMemsetD8_v2(address, device + 1, ctypes.c_size_t(max(SIZES))))
        check(cuda.cuCtxSynchronize())
        contexts.append(context)
        memory.append(address)
    times = {}
    for size in SIZES:
        for _ in range(rounds + 1):  # the first opens lanes and touches pages
            begin = time.monotonic()
            check(
                cuda.cuMemcpyPeer(
                    memory[1], contexts[1], memory[0], contexts[0], ctypes.c_size_t(size)
                )
            )
            times.setdefault(size, []).append(time.monotonic() - begin)
    word = ctypes.c_uint32()
    last = ctypes.c_uint64(memory[1].value + max(SIZES) - 4)
    check(cuda.cuMemcpyDtoH_v2(ctypes.byref(word), last, ctypes.c_size_t(4)))
    if word.value != 0x01010101:
        sys.exit(f"the last word is {word.value:#x}")
    print(json.dumps({size: each[1:] for size, each in times.items()}))


def serve():
    server = subprocess.Popen(
        [BUILD / "bin/farcall", "serve", "--listen", "tcp://127.0.0.1:0", "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    line = server.stdout.readline()
    return server, next(word for word in line.split() if word.startswith("tcp://")).rstrip(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        return client(options.rounds)
    servers = [serve(), serve()]
    try:
        environment = dict(
            os.environ,
            FARCALL_ENDPOINT=",".join(url for _, url in servers),
            FARCALL_TRANSPORT="tcp",
            LD_LIBRARY_PATH=str(BUILD / "lib/farcall"),
        )
        command = [sys.executable, __file__, "--client", "--rounds", str(options.rounds)]
        ran = subprocess.run(command, env=environment, check=True, text=True, capture_output=True)
        raw = subprocess.run(
            [BUILD / "bin/farcall", "bench", "--endpoint", servers[0][1], "--json"],
            env=dict(os.environ, FARCALL_TRANSPORT="tcp"),
            check=True,
            text=True,
            capture_output=True,
        )
    finally:
        for server, _ in servers:
            server.terminate()
            server.wait()
    stream = json.loads(raw.stdout)["raw"]["stream_GBps"]
    print(f"raw TCP, two connections, same run: {stream:.2f} GB/s\n")
    print("| copy between two servers | ms | GB/s | times the raw time |")
    print("|---|---|---|---|")
    rows = []
    for size, times in json.loads(ran.stdout).items():
        median = statistics.median(times)
        rate = int(size) / median / 1e9
        rows.append({"bytes": int(size), "seconds": times, "raw_GBps": stream})
        print(f"| {int(size) // MIB} MiB | {median * 1e3:.1f} | {rate:.2f} | {stream / rate:.2f} |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
