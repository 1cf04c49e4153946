# SPDX-License-Identifier: Apache-2.0
"""The scripts of tests/frameworks: natively, through a server and there in thin mode, several at a
time. Each compares what the device computed with the CPU. What each said is in logs.tar.gz as
FRAMEWORK.SCRIPT.WAY.subject.json, from which tests/gpu/keep makes rows."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import Results, Server, last_line, native_env, run

SCRIPTS = Path(__file__).resolve().parents[1] / "frameworks"
FOLDERS = {
    "pytorch": "torch",
    "jax": "jax",
    "cupy": "cupy",
    "numba": "numba",
    "triton": "triton",
    "transformers": "transformers",
}
# It takes all memory that there is; natively it would take the other scripts'.
ALONE = {"pytorch/out_of_memory"}
LIMIT_S = 150


def there(results: Results, module: str) -> bool:
    command = [sys.executable, "-c", f"import {module}"]
    code, _, _ = run(command, results.work / f"import-{module}.log", results.left(60))
    return code == 0


def environment(results: Results, base: dict, name: str) -> dict:
    folder = results.work / f"{name}.caches"  # nothing compiled by another way or run is found
    folder.mkdir(exist_ok=True)
    return {
        **base,
        "PYTHONPATH": str(SCRIPTS / "imports"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "FARCALL_SUBJECT_DEVICE": "cuda",
        "FARCALL_SUBJECT_RESULT": str(results.work / f"{name}.subject.json"),
        "FARCALL_STATS": str(results.work / f"{name}.stats.json"),
        "FARCALL_LIBRARY_CACHE": "0",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def one(results: Results, server: Server, script: Path, where: str) -> None:
    subject = f"{script.parent.name}/{script.stem}"
    name = f"{script.parent.name}.{script.stem}.{where}"
    command = [sys.executable, script]
    base = native_env
    if where != "native":
        command = server.through(command, thin=where == "thin")
        base = server.own_env
    limit_s = results.left(LIMIT_S)
    code, seconds, text = run(
        command, results.work / f"{name}.log", limit_s, environment(results, base, name)
    )
    try:
        said = json.loads((results.work / f"{name}.subject.json").read_text())
    except (OSError, ValueError):
        said = {"checks": [], "running": "start"}
    wrong = [check for check in said["checks"] if check["state"] != "ran"]
    if limit_s <= 0:
        result, note = "skip", "no time left"
    elif said.get("running") or code or wrong or not said["checks"]:
        ended = {
            "check": said.get("running") or "start",
            "why": f"exit code {code}: {last_line(text)}",
        }
        which = wrong[0] if wrong else ended
        result, note = "fail", f"{which['check']}: {which.get('why', '')}"
    else:
        result, note = "pass", f"{sum(check['values'] for check in said['checks'])} values"
    ran = f"{len(said['checks']) - len(wrong)} of {len(said['checks'])} checks"
    results.add(
        "subjects",
        subject,
        where,
        result,
        seconds,
        f"{ran}; {note}",
        **(server.figures(name) if where != "native" else {}),
    )


def run_all(results: Results, server: Server) -> None:
    if not server.endpoint or not SCRIPTS.is_dir():
        note = "no server, or the tree does not bring tests/frameworks"
        results.add("subjects", "tests/frameworks", "farcall", "skip", note=note)
        return
    jobs = []
    for folder, module in FOLDERS.items():
        if not there(results, module):
            results.add("subjects", folder, "native", "skip", note=f"{module} cannot be imported")
            continue
        jobs += [
            script
            for script in sorted((SCRIPTS / folder).glob("*.py"))
            if f"{folder}/{script.stem}" not in ALONE
        ]
    with ThreadPoolExecutor(max((os.cpu_count() or 2) - 2, 1)) as pool:
        for where in ("farcall", "thin", "native"):
            for script in jobs:
                pool.submit(one, results, server, script, where)
