# SPDX-License-Identifier: Apache-2.0
"""The other ways to a device: TLS with a token, a pool, a private server; and parked memory."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

from harness import Results, Server, kill_group, last_line, run, running

LIMIT_S = 60
HELD_MIB = 512

# Run by an interpreter of its own: memory with a pattern, a wait in which it is parked, the
# pattern again.
PARKED = f"""
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def must(code):
    assert code == 0, code
context, address = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
size = {HELD_MIB} << 20
must(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
pattern = bytes(range(256)) * (size >> 8)
must(cuda.cuMemcpyHtoD_v2(address, pattern, ctypes.c_size_t(size)))
print("held", flush=True)
sys.stdin.readline()
back = ctypes.create_string_buffer(size)
must(cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(size)))
assert back.raw == pattern
print("PASS the pattern is back")
"""


def farcall(results: Results, tree: Path, env: dict, log: str, *words) -> tuple[int, float, str]:
    return run([tree / "bin/farcall", *words], results.work / log, results.left(LIMIT_S), env)


def add(results: Results, name: str, end: tuple[int, float, str]) -> None:
    code, seconds, text = end
    results.add("reach", name, "farcall", "fail" if code else "pass", seconds, last_line(text))


def over_tls(results: Results, tree: Path, device: str, program: Path, env: dict) -> None:
    """A token, an authority and a certificate as the guide makes them."""
    folder = results.work / "tls"
    folder.mkdir()
    for words in (
        ("token", "new", folder / "gpu.token"),
        ("cert", "init", "--dir", folder),
        ("cert", "issue", "gpu-host", "--host", "127.0.0.1", "--dir", folder),
    ):
        code, _, text = farcall(results, tree, env, "tls-files.log", *words)
        if code:
            results.add("reach", "tls", "farcall", "fail", note=last_line(text))
            return
    server = Server(
        results,
        tree,
        device,
        *("--listen", "tls://127.0.0.1:0", "--token-file", folder / "gpu.token"),
        *("--tls-cert", folder / "gpu-host.pem", "--tls-key", folder / "gpu-host.key"),
        name="tls",
    )
    try:
        found = re.search(r"tls://[^ ,;]+", (results.work / "server-tls.log").read_text())
        if not server.endpoint or not found:
            results.add("reach", "tls", "farcall", "fail", note="the server names no tls:// URL")
            return
        env = {
            **server.own_env,
            "FARCALL_CA": str(folder / "ca.pem"),
            "FARCALL_TOKEN_FILE": str(folder / "gpu.token"),
        }
        for name, command in {
            "tls": [program],
            "tls, 64 MiB": [tree / "bench/latency/driver_latency", "bulk", "64"],
        }.items():
            words = ("run", "--endpoint", found.group(0), "--", *command)
            log = f"reach-{name.replace(' ', '-')}.log"
            add(results, name, farcall(results, tree, env, log, *words))
    finally:
        server.close()


def through_a_pool(results: Results, tree: Path, device: str, program: Path, env: dict) -> None:
    log = results.work / "pool.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [tree / "bin/farcall", "pool", "dev", "--device", device],
            env=env,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running.add(process)
    try:
        found, until = None, time.monotonic() + results.left(40)
        while time.monotonic() < until and process.poll() is None:
            text = log.read_text()
            found = re.search(r"pool on (pool://[^ ,]+)", text)
            if found and "serving" in text:
                break
            time.sleep(0.1)
        if not found:
            results.add("reach", "pool", "farcall", "fail", note=last_line(log.read_text()))
            return
        words = ("run", "--endpoint", found.group(1), "--mem", "1GiB", "--", program)
        add(results, "pool", farcall(results, tree, env, "reach-pool.log", *words))
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            kill_group(process)
        running.discard(process)


def parked(results: Results, tree: Path, device: str) -> None:
    control = ("--control", results.work / "park.sock")
    server = Server(results, tree, device, "--oversubscribe", "1.2", *control, name="park")
    if not server.endpoint:
        server.close()
        return
    client = subprocess.Popen(
        ["python3", "-c", PARKED],
        env=server.env("parked"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    running.add(client)
    try:
        begun = time.monotonic()
        line = client.stdout.readline()
        if line != "held\n":
            results.add("reach", "park", "farcall", "fail", note=line + client.stdout.read())
            return
        ask = (results, tree, server.own_env)
        _, _, text = farcall(*ask, "ps.log", "ps", "--json", *control)
        vgpu = json.loads(text)["vgpus"][0]["id"]
        code, took, text = farcall(*ask, "park.log", "park", vgpu, "--json", *control)
        told = text.strip().replace("\n", " ")[:200]
        results.add("reach", "park", "farcall", "fail" if code else "pass", took, told)
        rest, _ = client.communicate("\n", timeout=results.left(60))
        add(results, "after park", (client.returncode, time.monotonic() - begun, rest))
    finally:
        if client.poll() is None:
            kill_group(client)
        running.discard(client)
        server.close()


def run_all(results: Results, tree: Path, device: str, programs: dict[str, Path]) -> None:
    if "vector_add" not in programs:
        results.add("reach", "vector_add", "farcall", "skip", note="not built")
        return
    server = Server(results, tree, device, name="reach")
    server.close()
    if not server.endpoint:
        return
    words = ("run", "--device", device, "--", programs["vector_add"])
    add(
        results,
        "a private server",
        farcall(results, tree, server.own_env, "reach-private.log", *words),
    )
    over_tls(results, tree, device, programs["vector_add"], server.own_env)
    through_a_pool(results, tree, device, programs["vector_add"], server.own_env)
    parked(results, tree, device)
