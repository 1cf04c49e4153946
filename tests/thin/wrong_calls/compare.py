#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py LIBRARY [FUNCTIONS]: the codes of generated wrong calls, of NVIDIA's library on the CPU device and of ours in thin mode."""

import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "session"))
import caller  # noqa: E402
import objects  # noqa: E402
import plan as plans  # noqa: E402
from harness import BUILD, Server  # noqa: E402

NVCC = shutil.which("nvcc")
HOME = os.environ.get("CUDA_HOME") or (str(pathlib.Path(NVCC).resolve().parents[1]) if NVCC else "")
TOOLKIT = os.environ.get("FARCALL_TOOLKIT_LIBRARIES", f"{HOME}/lib64")
DIFFERENT = ("ours is late", "another code", "not run")
INCLUDE = os.environ.get("FARCALL_CUDA_INCLUDE", f"{HOME}/include")


def run(plan_file, soname, path, **environment):
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("FARCALL_") or k.startswith("FARCALL_WRONG")
    }
    environment = {**kept, "LD_LIBRARY_PATH": path, "FARCALL_LIBRARY_CACHE": "0", **environment}
    done = subprocess.run(
        [sys.executable, str(HERE / "caller.py"), str(plan_file), soname],
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:] + done.stdout[-500:])
    rows = {}
    for line in done.stdout.splitlines():
        number, code, late = line.split()
        rows[int(number)] = (code, int(late))
    return rows


def digest(plan_file):
    files = [plan_file, HERE / "caller.py", HERE / "objects.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def of_theirs(plan_file, soname):
    """NVIDIA's codes; FARCALL_WRONG_CALLS_KEPT names a folder that keeps them by plan."""
    folder = os.environ.get("FARCALL_WRONG_CALLS_KEPT")
    kept = pathlib.Path(folder or "/") / f"{digest(plan_file)}.json"
    if folder and kept.is_file():
        return {int(number): tuple(row) for number, row in json.loads(kept.read_text()).items()}
    rows = run(plan_file, soname, f"{BUILD}/lib/farcall/device:{TOOLKIT}")
    if folder:
        kept.write_text(json.dumps(rows))
    return rows


def compare(name, only=".*"):
    """Rows (function, what is wrong, NVIDIA's, ours), each a (code, late)."""
    spec = plans.spec_of(name, INCLUDE, BUILD)
    maker = plans.Plan(name, spec)
    plan = {
        "name": name,
        "apart": maker.bases.get("apart", ""),
        "objects": maker.bases["objects"],
        "calls": maker.calls(only),
    }
    soname = spec.sonames[plans.MAJORS[name]]
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "plan.json"
        file.write_text(json.dumps(plan))
        theirs = of_theirs(file, soname)
        with Server(environment={"FARCALL_LIBRARIES": TOOLKIT}) as server:
            ours = run(
                file,
                soname,
                f"{BUILD}/lib/farcall:{BUILD}/lib/farcall/thin",
                FARCALL_ENDPOINT=server.url,
            )
    rows = []
    for number, (function, _, what, _) in enumerate(caller.cases(plan)):
        rows.append((function, what, theirs.get(number), ours.get(number)))
    return rows


def known(name, function, what):
    """Why this one differs; empty: nobody says."""
    table = yaml.safe_load((HERE / "known.yaml").read_text())
    rows = table.get(name, []) + table.get("all", [])
    return next(
        (
            reason
            for functions, whats, reason in rows
            if re.fullmatch(functions, function) and re.fullmatch(whats, what)
        ),
        "",
    )


def classify(theirs, ours):
    if theirs is None or ours is None:
        return "not run"
    if theirs[0] in ("crash", "hang"):
        return f"NVIDIA's {theirs[0]}es" if theirs[0] == "crash" else "NVIDIA's hangs"
    if theirs[0] != ours[0] and min(theirs[1], ours[1]) >= objects.CUDA_ERROR:
        return "a kernel fails in both"
    if theirs[0] == ours[0]:
        return "same, an error" if theirs[0] != "0" else "same, success"
    if ours[0] == "0":
        return "ours is late"
    return "another code"


def main():
    name = sys.argv[1]
    rows = compare(name, *sys.argv[2:3])
    counts = collections.Counter()
    for function, what, theirs, ours in rows:
        kind = classify(theirs, ours)
        why = known(name, function, what) if kind in DIFFERENT else ""
        if why:
            kind += ", listed"
        if what == "right":
            kind = "right: " + kind
        counts[kind] += 1
        if kind.split(": ")[-1] in DIFFERENT or what == "right" and theirs[0] != "0":
            print(f"{kind}: {function}({what}): {theirs}, {ours}")
    print(f"{name}: {len({row[0] for row in rows})} functions, {len(rows)} calls")
    for kind, count in sorted(counts.items()):
        print(f"  {kind}: {count}")


if __name__ == "__main__":
    main()
