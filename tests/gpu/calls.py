# SPDX-License-Identifier: Apache-2.0
"""What calls cost and what codes they return, natively and through a server: bench/latency over TCP
and shared memory, and the tables of tests/conformance. A native failure there says where the driver
is not what a table holds."""

from __future__ import annotations

import json
from pathlib import Path

from harness import Results, Server, last_line, native_env, run

LATENCY = (
    ["start"],
    ["small", "200"],
    ["step", "200"],
    ["parts", "200"],
    ["bulk", "64"],
    ["launch"],
)
TABLES = ("completion", "destroyed", "errors", "graphs", "modules", "synchronization")
LIMIT_S = 60


def latency(results: Results, server: Server, program: Path, shm: str) -> None:
    for words in LATENCY:
        native = [program, *words]
        ways = {
            "native": native,
            "tcp": server.through(native),
            "shm": server.through(native, endpoint=shm),
        }
        for where, command in ways.items():
            env = native_env if where == "native" else server.own_env
            log = results.work / f"latency-{words[0]}-{where}.log"
            code, seconds, text = run(command, log, results.left(LIMIT_S), env)
            try:
                figures = {} if code else json.loads(text.strip().rsplit("\n", 1)[-1])
            except ValueError:
                figures = {}
            note = ", ".join(f"{name} {value}" for name, value in figures.items()) or last_line(
                text
            )
            results.add(
                "calls", words[0], where, "pass" if figures else "fail", seconds, note, **figures
            )


def conformance(results: Results, server: Server, program: Path, ways: tuple[str, ...]) -> None:
    libraries = f"{server.tree / 'examples/lib'}"
    for table in TABLES:
        for where in ways:
            native = [program, table]
            command = native if where == "native" else server.through(native, thin=where == "thin")
            base = native_env if where == "native" else server.own_env
            env = {
                **base,
                "LD_LIBRARY_PATH": f"{base.get('LD_LIBRARY_PATH', '')}:{libraries}".strip(":"),
                "FARCALL_TRANSPORT": "tcp",
            }
            log = results.work / f"conformance-{table}-{where}.log"
            code, seconds, text = run(command, log, results.left(LIMIT_S), env)
            # Natively it is the driver that differs from the table.
            differs = where == "native" and last_line(text).endswith(" failed")
            result = "fail" if code and not differs else "pass"
            results.add("conformance", table, where, result, seconds, last_line(text))


def run_all(results: Results, tree: Path, device: str, is_rehearsal: bool) -> None:
    """`is_rehearsal`: the native driver is the CPU device, which waits where a client of ours would not."""
    socket = results.work / "calls.shm"
    server = Server(results, tree, device, "--shm", str(socket), name="calls")
    programs = {
        "calls": tree / "bench/latency/driver_latency",
        "conformance": tree / "tests/conformance/conformance",
    }
    ways = ("farcall", "thin") if is_rehearsal else ("native", "farcall", "thin")
    try:
        for group, program in programs.items():
            if not server.endpoint or not program.exists():
                note = "no server, or the tree does not bring it"
                results.add(group, program.name, "farcall", "skip", note=note)
            elif group == "calls":
                latency(results, server, program, f"shm://{socket}")
            else:
                conformance(results, server, program, ways)
    finally:
        server.close()
