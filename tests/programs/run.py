#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds every CUDA program of one source file below a folder, and compares its runs in driver and thin mode with the device alone.

  run.py --folder DIR [--out OUT] [--build build/release] [--only REGEX] [--most N] [--limit S] [--table FILE]

Each program is compiled with PTX and a shared cudart, by a rule that knows no program (sources.py). It runs on the CPU device
alone, without Farcall's client and server, then in driver mode and in thin mode against one server: the exit code and all lines
must be those of the device alone. Where a line differs, the program runs alone once more, and lines that differ between these
two runs (times, rates, random values) need only have the same shape. `own check` is what the program says of its own results.

Results: `same` (both modes as the device alone), `differs` (a fault of the client or server, to be looked into), `slow` (not done
within --limit seconds of processor time on the device alone), `fails alone` (its exit code on the device alone is that of a signal, or it
says that it failed), `not built` (needs something else than CUDA's toolkit, or several source files). Exit 1 where one differs.
--table appends a line of tab-separated values for each program, and skips those that have one.
"""

import argparse
import difflib
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import sources  # noqa: E402

FAILED = re.compile(
    r"\b(fail(ed|ure)?|mismatch|incorrect|error:|not match|do not|don't match|wrong)\b", re.I
)
PASSED = re.compile(r"\b(pass(ed)?|success(ful(ly)?)?|correct|match(es)?|ok|PASS)\b", re.I)
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+")


class Modes:
    """The server and the library paths of the three ways in which a program runs."""

    def __init__(self, build, toolkit, extra):
        library = build / "lib/farcall"
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.server = subprocess.Popen(
            [build / "bin/farcall", "serve", "--listen", "tcp://127.0.0.1:0", "--device", "cpu"],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        url = re.search(r"tcp://\S+", self.server.stdout.readline()).group(0)
        nvidia = ":".join([f"{toolkit}/lib64", f"{toolkit}/nvvm/lib64", *extra])
        self.paths = {
            "alone": f"{library}/device:{nvidia}",
            "driver": f"{library}:{nvidia}",
            "thin": f"{library}/thin:{library}:{nvidia}",
        }
        self.common = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/tmp"),
            "OMP_NUM_THREADS": "2",
            "FARCALL_ENDPOINT": url,
        }

    def run(self, mode, binary, folder, limit_s):
        """(exit code or "limit", lines). The limit is of the program's own processor time, so that a busy machine changes
        nothing; by the clock it is ten times as long."""
        process = subprocess.Popen(
            [binary],
            cwd=folder,
            env=self.common | {"LD_LIBRARY_PATH": self.paths[mode]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5)),
        )
        try:
            output, _ = process.communicate(timeout=10 * limit_s)
            code = "limit" if process.returncode == -signal.SIGXCPU else process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            code = "limit"
        return code, output.decode(errors="replace")[: 4 << 20].splitlines()

    def stop(self):
        self.server.terminate()
        self.server.wait()


def stable(first, second):
    """The shapes of lines that say the same in two runs. A line whose numbers change is kept as its shape."""
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    kept = set()
    for start, _, size in matcher.get_matching_blocks():
        kept.update(first[start : start + size])
    return kept


def shape(line):
    return NUMBER.sub("#", line)


def difference(alone, again, other):
    """What `other` lacks of the lines that both runs alone said, or says that neither did; None: nothing."""
    steady = stable(alone, again)
    said, shapes = set(other), {shape(line) for line in alone + again}
    for line in alone:
        if line in steady and line not in said:
            return f"lacks: {line.strip()[:100]}"
    return next(
        (f"says: {line.strip()[:100]}" for line in other if shape(line) not in shapes), None
    )


def own_check(lines):
    text = "\n".join(lines)
    return "fails" if FAILED.search(text) else "passes" if PASSED.search(text) else "none"


def measure(program, known, modes, args):
    """(result, own check, note)"""
    if why := sources.foreign(program):
        return "not built", "", f"needs {why}"
    with tempfile.TemporaryDirectory(dir=args.out) as scratch:
        binary = pathlib.Path(scratch) / "program"
        if why := sources.compile_program(program, known, binary, args.arch, 600):
            return "not built", "", why
        alone, lines = modes.run("alone", binary, program.file.parent, args.limit)
        if alone == "limit":
            return "slow", "", f"not done within {args.limit} s"
        others = [
            modes.run(mode, binary, program.file.parent, args.limit) for mode in ("driver", "thin")
        ]
        again = lines
        if any(said != lines for _, said in others):
            _, again = modes.run("alone", binary, program.file.parent, args.limit)
    notes = []
    for mode, (code, said) in zip(("driver", "thin"), others):
        if code != alone:
            notes.append(
                f"{mode}: exit {code} instead of {alone}, {said[-1][:80] if said else 'no output'}"
            )
        elif why := difference(lines, again, said):
            notes.append(f"{mode} {why}")
    check = own_check(lines)
    if notes:
        return "differs", check, "; ".join(notes)
    if alone != 0 or check == "fails":
        last = next(
            (line for line in lines if FAILED.search(line)), lines[-1] if lines else "no output"
        )
        return "fails alone", check, f"exit {alone}: {last.strip()[:100]}"
    return "same", check, ""


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument(
        "--out", type=pathlib.Path, default=ROOT / "build/programs", help="scratch folder"
    )
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", default="", help="regular expression for names")
    parser.add_argument("--most", type=int, default=1 << 30, help="run at most this many")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds of processor time of one run"
    )
    parser.add_argument("--arch", type=int, default=90)
    parser.add_argument(
        "--library-folder",
        action="append",
        default=[],
        help="folder of a library that the toolkit lacks",
    )
    parser.add_argument("--table", type=pathlib.Path)
    args = parser.parse_args()
    root, args.build = args.folder.resolve(), args.build.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    args.out = args.out.resolve()
    done = (
        {line.split("\t")[0] for line in args.table.read_text().splitlines()}
        if args.table and args.table.exists()
        else set()
    )
    nvcc = subprocess.run(
        ["sh", "-c", "readlink -f $(command -v nvcc)"], capture_output=True, text=True, check=True
    ).stdout.strip()
    modes, known, counts = (
        Modes(args.build, pathlib.Path(nvcc).parents[1], args.library_folder),
        sources.headers(root),
        {},
    )
    try:
        todo = [
            p for p in sources.programs(root) if re.search(args.only, p.name) and p.name not in done
        ][: args.most]
        for number, program in enumerate(todo, 1):
            result, check, note = measure(program, known, modes, args)
            counts[result] = counts.get(result, 0) + 1
            row = "\t".join(
                (
                    program.name,
                    result,
                    check,
                    re.sub(r"/(tmp|work|root|home)/\S*/", "", note).replace("\t", " "),
                )
            )
            print(f"{number}/{len(todo)}\t{row}", flush=True)
            if args.table:
                with open(args.table, "a") as table:
                    table.write(row + "\n")
    finally:
        modes.stop()
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return 1 if counts.get("differs") else 0


if __name__ == "__main__":
    sys.exit(main())
