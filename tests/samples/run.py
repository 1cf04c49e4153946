#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds public cuda-samples and runs them through Farcall, then shows that each notices a dropped launch.

  run.py --samples DIR [--prefix build/release] [--count 20] [--out build/samples] [--device cpu] [--no-drop]

DIR is a checkout of the public cuda-samples repository. The rule that picks is choose.py. Prints a table, writes OUT/table.md and
OUT/table.json; exit 1 if a chosen sample fails or does not notice.

Dropped launches: a proxy in the path turns launch records into no-ops, and the sample must then fail by its own check.
First single launches, one run each: all of them where there are at most ALL_LAUNCHES, else the first and the last. A sample
that repeats a launch to the same effect cannot notice one; for those each kernel in turn is dropped, that is every launch of one
function, in the order of the functions' first launches. "1" in the table: launch number 1 was noticed; "all 301 of kernel 1
(of 1)": no single one was, but all 301 launches of one kernel. What remains is a sample that does not check what its kernels
compute.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]
import choose  # noqa: E402
import link_proxy  # noqa: E402

WAIVED = 2
ALL_LAUNCHES = 12
SINGLES_LIMIT_S = 300  # for one sample's single launches; then its kernels


def build(sample, samples_root, out, nvcc):
    target = out / "bin" / sample.name
    if target.exists():
        return target, ""
    target.parent.mkdir(parents=True, exist_ok=True)
    command = [nvcc, "-std=c++17", "-O2", "-I", str(samples_root / "Common"), "-o", str(target)]
    done = subprocess.run(
        command + [str(s) for s in sample.sources], cwd=sample.path, capture_output=True, text=True
    )
    errors = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]
    return (target, "") if done.returncode == 0 else (None, (errors or ["nvcc failed"])[0])


class Server:
    def __init__(self, prefix, device):
        self.process = subprocess.Popen(
            [
                str(prefix / "bin" / "farcall"),
                "serve",
                "--listen",
                "tcp://127.0.0.1:0",
                "--device",
                device,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        found = re.search(r"tcp://[^ ,]+:(\d+)", line)
        if not found:
            raise SystemExit(f"farcall serve gave no ready line, but: {line!r}")
        self.port = int(found.group(1))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


def launch_ids():
    wanted = {"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"}
    rows = (
        line.split()
        for line in (ROOT / "codegen/ids/cuda.ids").read_text().splitlines()
        if line and line[0] != "#"
    )
    return [int(number) for number, name, *_ in rows if name in wanted]


def run(binary, sample, args, endpoint, stats):
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": os.environ.get("HOME", "/tmp"),
        "LD_LIBRARY_PATH": str(args.prefix / "lib/farcall"),
        "FARCALL_ENDPOINT": endpoint,
        "FARCALL_STATS": str(stats),
    }
    stats.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        done = subprocess.run(
            [str(binary)],
            cwd=sample.path,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=args.limit,
            stdin=subprocess.DEVNULL,
        )
        code, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        code, output = "limit", (expired.stdout or b"").decode(errors="replace")
    return code, output, time.monotonic() - start


def verdict(code, output):
    """A sample fails by its exit code or, where it exits 0 all the same, by saying so."""
    if code in (WAIVED, "limit"):
        return "waived" if code == WAIVED else "limit"
    # Images are compared to a tolerance: how many bytes differ is told where they count as equal too.
    said = re.search(
        r"Result = FAIL|Test failed|\bFAILED\b|TEST FAILED|(?<!bytes )mismatch|Error at|error code",
        output,
    )
    return "pass" if code == 0 and not said else "fail"


def run_dropping(binary, sample, args, server, stats, **drop):
    """How many launches were dropped, and whether the sample noticed."""
    proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), launch_ids=launch_ids(), **drop)
    code, output, _ = run(binary, sample, args, proxy.url, stats)
    proxy.close()
    return proxy.counts["dropped"], verdict(code, output) == "fail"


def notices_drop(binary, sample, args, server, launches, functions, stats):
    """What was dropped when the sample first noticed, in words; else "no", and what was tried."""
    single = range(1, launches + 1) if launches <= ALL_LAUNCHES else [1, launches]
    end, tried = time.monotonic() + SINGLES_LIMIT_S, 0
    for number in single:
        if time.monotonic() > end:
            break
        tried += 1
        dropped, noticed = run_dropping(binary, sample, args, server, stats, drop_launch=number)
        if dropped and noticed:
            return str(number)
    for number in range(1, functions + 1):
        dropped, noticed = run_dropping(binary, sample, args, server, stats, drop_function=number)
        if dropped and noticed:
            return f"all {dropped} of kernel {number} (of {functions})"
    return f"no: {tried} launches, {functions} kernels tried"


def measure(sample, args, server, out):
    row = {"sample": sample.name, "folder": sample.folder}
    binary, error = build(sample, args.samples, out, args.nvcc)
    if binary is None:
        return row | {"result": "no build", "note": error}
    stats = out / "stats.json"
    proxy = link_proxy.LinkProxy(("127.0.0.1", server.port), launch_ids=launch_ids())
    code, output, wall_s = run(binary, sample, args, proxy.url, stats)
    counts, functions = dict(proxy.counts), len(proxy.functions)
    proxy.close()
    (out / f"{sample.name}.txt").write_text(output)
    shim = json.loads(stats.read_text()) if stats.exists() else {}
    row |= {
        "result": verdict(code, output),
        "exit": code,
        "wall_s": round(wall_s, 2),
        "launches": counts["launches"],
        "kernels": functions,
        "round_trips": shim.get("round_trips"),
        "round_trips_proxy": counts["hellos"] + counts["lane_hellos"] + counts["wanted_replies"],
    }
    if row["result"] == "pass" and not args.no_drop and counts["launches"]:
        row["drop_noticed"] = notices_drop(
            binary, sample, args, server, counts["launches"], functions, stats
        )
    if row["result"] != "pass":
        lines = [line for line in output.strip().splitlines() if line.strip()]
        row["note"] = lines[-1][:120] if lines else ""
    return row


def table(rows):
    head = [
        "sample",
        "result",
        "wall_s",
        "launches",
        "kernels",
        "round_trips",
        "round_trips_proxy",
        "drop_noticed",
        "note",
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(row.get(key, "")) for key in head) + " |" for row in rows]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", required=True, type=pathlib.Path)
    parser.add_argument("--prefix", default=ROOT / "build/release", type=pathlib.Path)
    parser.add_argument("--out", default=ROOT / "build/samples", type=pathlib.Path)
    parser.add_argument("--count", default=20, type=int)
    parser.add_argument(
        "--only", default="", help="comma list of names instead of the rule's first"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument(
        "--limit", default=120, type=int, help="seconds that one run of a sample may take"
    )
    parser.add_argument("--no-drop", action="store_true")
    args = parser.parse_args()
    args.samples, args.prefix, args.out = (
        args.samples.resolve(),
        args.prefix.resolve(),
        args.out.resolve(),
    )
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = [s for s in choose.choose(args.samples) if not s.reason_out]
    chosen = (
        [s for s in chosen if s.name in args.only.split(",")] if args.only else chosen[: args.count]
    )
    server, rows = Server(args.prefix, args.device), []
    for number, sample in enumerate(chosen, 1):
        rows.append(measure(sample, args, server, args.out))
        print(
            f"[{number}/{len(chosen)}] {sample.name}: {rows[-1]['result']} {rows[-1].get('note', '')}",
            flush=True,
        )
        (args.out / "table.md").write_text(table(rows) + "\n")
        (args.out / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    server.stop()
    print(table(rows))
    good = [
        row
        for row in rows
        if row["result"] == "pass"
        and (args.no_drop or not row.get("drop_noticed", "no").startswith("no"))
    ]
    print(f"{len(good)} passed, {len(rows) - len(good)} failed")
    return 0 if len(good) == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
