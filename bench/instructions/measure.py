#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions, lock pairs and heap blocks of one call in the calling thread, by callgrind.

The row `turn` is the CPU device's: one question to the 1,024 threads of a block.

    measure.py            prints them beside their goals
    measure.py --check    fails unless they are as in figures.json, within 5 %; 77 without valgrind
    measure.py --update   writes figures.json
    measure.py --keep F   keeps callgrind's files in the folder F, for callgrind_annotate

Client and server (the dry device) share one processor, so that the answer is never there before
the client sleeps: what is counted then hardly depends on time.
"""

import argparse
import json
import os
import pathlib
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("FARCALL_BUILD", HERE.parents[1] / "build" / "release"))
GOALS = {
    "launch": {"instructions": 350, "mallocs": 0},
    "sync": {"instructions": 2000, "mallocs": 0},
    "read": {"mallocs": 0},
    "memory": {"mallocs": 0},
    "turn": {"mallocs": 0},
}
# What makes the calls; else `calls`.
PROGRAMS = {"turn": "turns"}
TOLERANCE = 0.05
# What of a freed block comes back when is the server's: these figures vary by 5 %, their median less.
RUNS = {"memory": 5}


def parse(text):
    """Cost and calls by callee of a callgrind file without compressed positions."""
    names, calls, total = {}, {}, 0
    callee, skip = None, False
    for line in text.splitlines():
        match = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
        if match:
            kind, number, name = match.groups()
            if name:
                names[number] = name
            if kind == "cfn":
                callee = names[number]
        elif line.startswith("calls="):
            count = int(line[6:].split()[0])
            calls[callee] = calls.get(callee, 0) + count
            skip = True  # the next line is the callee's inclusive cost
        elif re.match(r"[+\-*0-9]", line):
            if not skip:
                total += int(line.split()[1])
            skip = False
    return total, calls


def count(calls, *names):
    """Calls of functions of one of the names, whatever their version and number."""
    pattern = re.compile(r"_*(%s)(@.*|'\d+)?$" % "|".join(names))
    return sum(n for name, n in calls.items() if pattern.match(name))


def measure(what, endpoint, folder):
    out = pathlib.Path(folder) / ("callgrind." + what)
    environment = dict(
        os.environ,
        FARCALL_ENDPOINT=endpoint,
        FARCALL_LOG="error",
        LD_LIBRARY_PATH=str(BUILD / "lib" / "farcall"),
        FARCALL_CACHE_DIR=folder,
    )
    for name in ("FARCALL_STATS", "FARCALL_TRANSPORT"):
        environment.pop(name, None)
    command = [
        "valgrind",
        "--tool=callgrind",
        "--separate-threads=yes",
        "--zero-before=Counted",
        "--dump-after=Counted",
        "--callgrind-out-file=" + str(out),
        "--compress-pos=no",
        str(BUILD / "bench" / "instructions" / PROGRAMS.get(what, "calls")),
        what,
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    if ran.returncode != 0:
        raise SystemExit(f"measure.py: {' '.join(command)} failed:\n{ran.stdout}{ran.stderr}")
    made = int(ran.stdout.split()[-1])
    total, calls = parse(
        pathlib.Path(f"{out}.1-01").read_text()
    )  # up to the end of Counted, the calling thread
    return {
        "instructions": total / made,
        "locks": count(calls, "pthread_mutex_lock", "pthread_mutex_trylock") / made,
        "mallocs": count(calls, "malloc", "calloc", "realloc") / made,
    }


def median_of_runs(what, endpoint, folder):
    runs = [measure(what, endpoint, folder) for _ in range(RUNS.get(what, 1))]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


class Server:
    def __init__(self, folder):
        self.token_file = pathlib.Path(folder) / "token"

    def __enter__(self):
        self.token_file.write_text(secrets.token_hex(16))
        os.environ.pop("FARCALL_TOKEN", None)
        os.environ["FARCALL_TOKEN_FILE"] = str(self.token_file)
        self.process = subprocess.Popen(
            [
                str(BUILD / "bin" / "farcall"),
                "serve",
                "--device",
                "dry",
                "--listen",
                "tcp://127.0.0.1:0",
                "--token-file",
                str(self.token_file),
                "--log-level",
                "error",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        line = self.process.stdout.readline()
        return re.search(r"tcp://[^ ,]+", line).group(0)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("measure.py: valgrind is not installed (apt-get install valgrind)", file=sys.stderr)
        return 77
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as scratch, Server(scratch) as endpoint:
        folder = arguments.keep or scratch
        os.makedirs(folder, exist_ok=True)
        figures = {what: median_of_runs(what, endpoint, folder) for what in GOALS}
    wanted = (
        json.loads((HERE / "figures.json").read_text()) if (HERE / "figures.json").exists() else {}
    )
    print(f"{'per call':8} {'':14} {'counted':>10} {'committed':>10} {'goal':>8}")
    bad = []
    for what, row in figures.items():
        for name, value in row.items():
            committed = wanted.get(what, {}).get(name)
            print(
                f"{what:8} {name:14} {value:10.2f} {committed if committed is not None else '-':>10} "
                f"{GOALS[what].get(name, '-'):>8}"
            )
            if committed is None or abs(value - committed) > max(TOLERANCE * committed, 0.02):
                bad.append(f"{what} {name}: {value:.2f}, committed {committed}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1))
    if arguments.update:
        rounded = {
            what: {name: round(value, 2) for name, value in row.items()}
            for what, row in figures.items()
        }
        (HERE / "figures.json").write_text(json.dumps(rounded, indent=1) + "\n")
    if arguments.check and bad:
        print(
            "not within 5 % of figures.json (measure.py --update, if the change is meant):",
            *bad,
            sep="\n  ",
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
