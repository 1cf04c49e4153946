#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy with .clang-tidy, which allows no finding.

    scripts/check_tidy.py                    sources that differ from what passed last
    scripts/check_tidy.py --all [PATH...]    every source below PATH (default: all), and notes those that pass
    scripts/check_tidy.py --left             how many of each folder have not passed yet

scripts/tidy-passed.txt holds a digest of each source as it passed. A source of the file that has
changed since is checked again; one that is not in the file has not been checked yet. Needs the
compile commands of a configured build (FARCALL_BUILD, default build/release). Exit 1: findings.
"""

import collections
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import compile_commands

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("FARCALL_BUILD", ROOT / "build/release"))
PASSED = ROOT / "scripts/tidy-passed.txt"
FOLDERS = (
    "cli",
    "client-shim",
    "cpu-device",
    "listener",
    "pool",
    "proto",
    "quota",
    "server",
    "settings",
    "toolkit",
    "transport",
)
FINDING = re.compile(r"^(\S+):\d+:\d+: (?:warning|error): .*", re.M)
# Of a file that includes several sources: they are code, whatever clang takes for a header.
UNITED = (
    "--extra-arg=-Xclang",
    "--extra-arg=-analyzer-opt-analyze-headers",
    "--checks=-bugprone-suspicious-include",
)


def sources():
    listed = subprocess.run(
        [
            "git",
            "-C",
            str(ROOT),
            "ls-files",
            *(f"{folder}/**/*.cc" for folder in FOLDERS),
            *(f"{folder}/*.cc" for folder in FOLDERS),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted({line for line in listed.stdout.splitlines() if (ROOT / line).is_file()})


def digest(source):
    return hashlib.sha256((ROOT / source).read_bytes()).hexdigest()[:16]


def read_passed():
    if not PASSED.exists():
        return {}
    rows = (
        line.split()
        for line in PASSED.read_text().splitlines()
        if line and not line.startswith("#")
    )
    return {source: value for value, source in rows}


def write_passed(passed):
    kept = {source: value for source, value in passed.items() if (ROOT / source).is_file()}
    rows = "".join(f"{value} {source}\n" for source, value in sorted(kept.items()))
    PASSED.write_text(
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# Sources as they passed scripts/check_tidy.py: the first 16 digits of SHA-256.\n" + rows
    )


def own_findings(text):
    """What clang-tidy printed, without what it finds in files that the build makes."""
    starts = [match.start() for match in FINDING.finditer(text)]
    parts = [text[at:end] for at, end in itertools.pairwise([*starts, len(text)])]
    return "".join(part for part in parts if not part.startswith(f"{BUILD}/"))


def tidy(source, commands, *options):
    """What clang-tidy says of it; empty: nothing. COMMANDS: a folder with compile_commands.json."""
    run = subprocess.run(
        ["clang-tidy-14", "-p", str(commands), "--quiet", *options, source],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    said = own_findings(run.stdout).replace(f"{ROOT}/", "")
    return said or (run.stderr[-2000:] if run.returncode != 0 else "")


def header_filter():
    """As .clang-tidy has it, of sources as well."""
    text = (ROOT / ".clang-tidy").read_text()
    return re.search(r"HeaderFilterRegex: '(.*)'", text)[1].replace(r"\.h$", r"\.(h|cc)$")


def tidy_together(unit, sources, commands):
    """SOURCE -> what clang-tidy says of it, each of `sources`, which the unity file UNIT includes.
    Reads the headers once. Sources of which it has nothing to say pass; others are read alone."""
    said = tidy(unit, BUILD, f"--header-filter={header_filter()}", *UNITED)
    findings = {file.removeprefix(f"{ROOT}/") for file in FINDING.findall(said)}
    if said and not (findings and findings <= set(sources)):
        findings = set(sources)
    return {source: tidy(source, commands) if source in findings else "" for source in sources}


def main():
    arguments = sys.argv[1:]
    known, passed = sources(), read_passed()
    if arguments[:1] == ["--left"]:
        left = collections.Counter(
            str(pathlib.Path(source).parent) for source in known if source not in passed
        )
        print("".join(f"{count:5} {folder}\n" for folder, count in sorted(left.items())), end="")
        print(f"{sum(left.values()):5} of {len(known)} sources have not passed yet")
        return 0
    if arguments[:1] == ["--all"]:
        below = [path.rstrip("/") for path in arguments[1:]]
        chosen = [
            source
            for source in known
            if not below or any(source == path or source.startswith(path + "/") for path in below)
        ]
        chosen = [source for source in chosen if passed.get(source) != digest(source)]
    else:
        chosen = [
            source for source in known if source in passed and passed[source] != digest(source)
        ]
    if not chosen:
        return 0
    if shutil.which("clang-tidy-14") is None:
        sys.exit("  clang-tidy-14 not found: install the package clang-tidy-14")
    if not (BUILD / "compile_commands.json").exists():
        sys.exit(f"  {BUILD}/compile_commands.json not found: ./scripts/build makes it")
    rows = list(compile_commands.rows_of(BUILD))
    compiled = {os.path.realpath(row["file"]) for row in rows}
    chosen = [source for source in chosen if os.path.realpath(ROOT / source) in compiled]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(rows))
        return check(chosen, folder, passed if arguments else None)


def groups(chosen):
    """(unity file, its sources that are chosen) and (None, [source]) for each of the others."""
    left = dict.fromkeys(chosen)
    for unit, sources in compile_commands.units_of(BUILD):
        known = [os.path.relpath(os.path.realpath(source), ROOT) for source in sources]
        known = [source for source in known if source in left]
        if len(known) > 1:
            for source in known:
                del left[source]
            yield unit, known
    for source in left:
        yield None, [source]


def check(chosen, commands, passed):
    """Exit status. Sources that pass are noted in PASSED, if it is given."""

    def look(group):
        unit, sources = group
        if unit is None:
            return {source: tidy(source, commands) for source in sources}
        return tidy_together(unit, sources, commands)

    found = number = 0
    digests = {source: digest(source) for source in chosen}
    jobs = int(os.environ.get("FARCALL_JOBS", os.cpu_count() or 1))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        looks = [pool.submit(look, group) for group in groups(chosen)]
        for done in concurrent.futures.as_completed(looks):
            result = done.result()
            number += len(result)
            for source, said in result.items():
                if said:
                    found += 1
                    print(said, file=sys.stderr, flush=True)
                elif passed is not None:
                    passed[source] = digests[source]
            if passed is not None:
                write_passed(passed)
            if sys.stderr.isatty():
                progress = f"\r{number}/{len(chosen)} {list(result)[-1][:70]:70}"
                print(progress, end="", file=sys.stderr, flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
