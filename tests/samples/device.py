#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds all public cuda-samples by their own CMake files, with PTX, and runs each on the CPU device alone.

  device.py --samples DIR [--build build/release] [--out build/samples-device] [--only NAME,NAME] [--limit S] [--keep] [--no-build]

DIR is a checkout of the public cuda-samples repository; it is copied to OUT/src, with one change: what is compiled for a list of
architectures becomes PTX of ARCH alone. What CMake leaves out (OpenGL, Vulkan, MPI, other platforms) or does not compile counts as not built.
Arguments are those of the repository's own test_args.json, which also skips what wants a display and a person; a sample with several runs passes if all do. A sample that passes is run
again on the dry device, which executes no kernel: `noticed` says whether its own check fails then.
Those that compile at run time have profile 12.1, which NVIDIA's compilers know by name, the others 13.0.
A run is cut off after --limit seconds of processor time, which says the same on a busy machine, and at four times as much by the clock.
exclusions.tsv lists what no software device can pass, a cause each; exit 1 if anything else fails. --keep writes the table into docs/results/cpu-device/,
after each sample: a run that is cut short keeps what it has.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools"), str(HERE.parents[1] / "codegen")]
import run  # noqa: E402
import wrap_markdown  # noqa: E402

ARCH = 90
EXCLUSIONS = HERE / "exclusions.tsv"
ROWS = ROOT / "docs/results/cpu-device/samples.tsv"
PAGE = ROOT / "docs/results/cpu-device/samples.md"
FOLDER = re.compile(r"^\d_")


def rewrite(text):
    """PTX of one architecture in the place of machine code of many."""
    text = re.sub(
        r"set\(CMAKE_CUDA_ARCHITECTURES [^)]*\)",
        f"set(CMAKE_CUDA_ARCHITECTURES {ARCH}-virtual)",
        text,
    )
    text = re.sub(r"foreach\((\w+) \$\{CMAKE_CUDA_ARCHITECTURES\}\)", rf"foreach(\1 {ARCH})", text)
    text = re.sub(r"code=sm_(\$\{\w+\}|\d+)", r"code=compute_\1", text)
    return re.sub(r"([-=])sm_(\d+)", rf"\1compute_{ARCH}", text) if "-ptx" not in text else text


def copy(args):
    source = args.out / "src"
    for name in ("Common", "Samples", "cmake", "bin"):
        if (args.samples / name).is_dir() and not (source / name).exists():
            shutil.copytree(args.samples / name, source / name, symlinks=True)
    for name in ("CMakeLists.txt", "test_args.json"):
        shutil.copy(args.samples / name, source / name)
    for file in [source / "CMakeLists.txt", *source.glob("Samples/**/CMakeLists.txt")]:
        text = file.read_text(errors="replace")
        if (changed := rewrite(text)) != text:
            file.write_text(changed)
    return source


def build(args):
    source, tree = copy(args), args.out / "tree"
    libraries = ";".join(str(args.toolkit / name) for name in ("lib64", "lib", "nvvm/lib64"))
    configure = [
        "cmake",
        "-S",
        source,
        "-B",
        tree,
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CUDA_COMPILER={args.nvcc}",
        f"-DCMAKE_LIBRARY_PATH={libraries}",
    ]
    # A sample that cannot be configured, for want of a library, stops all of them: it is left out, the rest tried again.
    for _ in range(20):
        done = subprocess.run(configure, capture_output=True, text=True, errors="replace")
        (args.out / "configure.log").write_text(done.stdout + done.stderr)
        if done.returncode == 0:
            break
        lacking = set(
            re.findall(
                r"CMake Error at Samples/(\w+)/(\w+)/CMakeLists|in directory \S*/src/Samples/(\w+)/(\S+)",
                done.stdout + done.stderr,
            )
        )
        if not lacking:
            sys.exit(f"cmake failed: see {args.out / 'configure.log'}")
        for group, name in ((a or c, b or d) for a, b, c, d in lacking):
            parent = source / "Samples" / group / "CMakeLists.txt"
            parent.write_text(
                re.sub(
                    rf"(?m)^\s*add_subdirectory\({re.escape(name)}\)",
                    f"# no {name}",
                    parent.read_text(),
                )
            )
    with open(args.out / "build.log", "w") as log:
        subprocess.run(
            ["ninja", "-C", tree, "-k", "0", f"-j{args.jobs}"], stdout=log, stderr=log, check=False
        )


def samples(args):
    """(name, folder in the tree) of all that the repository has."""
    base = args.out / "src/Samples"
    for group in sorted(p for p in base.iterdir() if p.is_dir() and FOLDER.match(p.name)):
        for file in sorted(group.glob("**/CMakeLists.txt")):
            if "add_executable" in file.read_text(errors="replace"):
                yield file.parent.name, args.out / "tree/Samples" / file.parent.relative_to(base)


def data_of(args, folder):
    """The arguments name files in data/; some CMake files lay them beside the program instead."""
    source = args.out / "src" / folder.relative_to(args.out / "tree") / "data"
    if source.is_dir() and folder.is_dir() and not (folder / "data").exists():
        (folder / "data").symlink_to(source)


def program_of(name, folder):
    found = [
        p
        for p in (folder.iterdir() if folder.is_dir() else [])
        if p.is_file() and os.access(p, os.X_OK)
    ]
    return next((p for p in found if p.name == name), found[0] if len(found) == 1 else None)


def told_of(args, name):
    return json.loads((args.out / "src/test_args.json").read_text()).get(name, {})


def runs_of(told):
    runs = [one.get("args", []) for one in told.get("runs", []) if not one.get("skip")]
    return runs or [told.get("args", [])], told.get("min_gpus", 1)


def calls(args, program, pattern):
    source = args.out / "src" / program.parent.relative_to(args.out / "tree")
    texts = (
        file.read_text(errors="replace")
        for file in source.iterdir()
        if file.suffix in (".c", ".cpp", ".cu", ".cuh", ".h", ".hpp")
    )
    return any(re.search(pattern, text) for text in texts)


def profile_of(args, program):
    """Compilers at run time are asked for the device's compute capability: one that they know."""
    return (
        "12.1"
        if calls(
            args, program, "nvvmCompileProgram|nvrtc_helper|nvrtcCompileProgram|nvJitLinkCreate"
        )
        else "13.0"
    )


def once(args, program, arguments, device, devices):
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG", "TMPDIR") if k in os.environ}
    linker = f"{device}/nvjitlink:" if calls(args, program, "nvJitLinkCreate") else ""
    env = kept | {
        "LD_LIBRARY_PATH": f"{linker}{device}:{args.toolkit}/lib64:{args.toolkit}/nvvm/lib64",
        "FARCALL_CPU_DEVICES": str(devices),
        "FARCALL_CPU_PROFILE": profile_of(args, program),
        "LIBNVVM_HOME": f"{args.toolkit}/nvvm",
    }
    start = time.monotonic()
    try:
        done = subprocess.run(
            [str(program), *arguments],
            cwd=program.parent,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=4 * args.limit,
            stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_CPU, (args.limit, args.limit + 10)
            ),
        )
        code = "limit" if done.returncode == -signal.SIGXCPU else done.returncode
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired as expired:
        code, output = "limit", (expired.stdout or b"").decode(errors="replace")
    return code, output, time.monotonic() - start


def last_line(output):
    said = [
        line.strip()
        for line in output.splitlines()
        if re.search(r"error|fail|not supported|exit|waiv|mismatch", line, re.I)
    ]
    lines = said or [line.strip() for line in output.splitlines() if line.strip()] or [""]
    return re.sub(r"/\S*/", "", lines[-1]).replace("\t", " ")[:160]  # no paths of this machine


# What a sample lacks, by what CMake or the compiler says.
LACKING = {
    r"Windows-only": "Windows only",
    r"NvSCI|NVSCI|nvsci": "NvSci",
    r"cudla": "cuDLA",
    r"Vulkan|vulkan": "Vulkan",
    r"D3D|d3d": "Direct3D",
    r"npp\w*\.h|NPP": "NPP",
    r"nvjpeg": "nvJPEG",
    r"FreeImage": "FreeImage",
    r"MPI|mpi\.h": "MPI",
    r"cuEGL|EGL|egl": "EGL of the driver",
    r"GLES|gles": "OpenGL ES",
    r"GLUT|glut|OpenGL|GL/": "OpenGL",
    r"cuda-c-linking|LLVM": "LLVM's headers as libNVVM wants them",
    r"nvJitLink\w*\.a|nvrtc_static|nvJitLink_static|_static": "static libraries of the toolkit",
}


def why_not_built(args, name):
    """What the logs of CMake and the compiler say is lacking."""
    said = [
        line
        for line in (args.out / "configure.log").read_text(errors="replace").splitlines()
        if name in line and re.search(r"[Nn]ot|skip|Skip|Windows", line)
    ]
    lines = (
        (args.out / "build.log").read_text(errors="replace").splitlines()
        if (args.out / "build.log").exists()
        else []
    )
    for number, line in enumerate(lines):
        if line.startswith("FAILED: ") and f"/{name}/" in line:
            said += [
                text
                for text in lines[number + 1 : number + 40]
                if re.search(r"error|undefined reference|needed by|No such file", text)
            ][:3]
    for text in said:
        for pattern, lacking in LACKING.items():
            if re.search(pattern, text):
                return lacking if lacking == "Windows only" else f"lacks {lacking}"
    if said:
        return re.sub(r"/\S*/", "", said[0])[:120]
    return (
        "not on this platform"
        if "8_Platform_Specific" in str(next((args.out / "src/Samples").glob(f"**/{name}"), ""))
        else "left out by CMake"
    )


def measure(args, name, program):
    """One row: result, seconds, noticed, note."""
    if program is None:
        return "not built", 0, "", why_not_built(args, name)
    if told_of(args, name).get("skip"):
        return "skipped", 0, "", "the repository's own tests skip it"
    data_of(args, program.parent)
    runs, devices = runs_of(told_of(args, name))
    total, worst, note = 0, "pass", ""
    for number, arguments in enumerate(runs, 1):
        code, output, wall_s = once(
            args, program, arguments, args.build / "lib/farcall/device", devices
        )
        (args.out / "logs").mkdir(exist_ok=True)
        (args.out / "logs" / f"{name}.{number}.txt").write_text(f"{code}\n{output}")
        total += wall_s
        verdict = run.verdict(code, output)
        if verdict != "pass" and worst == "pass":
            said = (
                f"not done within {args.limit} s of processor time, or {4 * args.limit} s by the clock"
                if verdict == "limit"
                else f"exit {code}: {last_line(output)}"
            )
            worst, note = verdict, f"run {number}: {said}" if len(runs) > 1 else said
            break
    noticed = ""
    if worst == "pass":
        code, output, _ = once(
            args, program, runs[0], args.build / "lib/farcall/device/dry", devices
        )
        noticed = "no" if run.verdict(code, output) == "pass" else "yes"
    return worst, round(total, 1), noticed, note


def exclusions():
    rows = (
        line.split("\t") for line in EXCLUSIONS.read_text().splitlines() if line and line[0] != "#"
    )
    return dict(rows)


def page(rows, left):
    out, excluded = [], exclusions()
    built = [r for r in rows if r[1] != "not built"]
    counted = [r for r in built if r[0] not in excluded and r[1] != "skipped"]
    good = [r for r in counted if r[1] == "pass"]
    seen = [r for r in good if r[3] == "yes"]
    out.append(
        "# Public cuda-samples on the CPU device\n\n`tests/samples/device.py --keep` writes this page: every sample, by its own CMake file, as PTX, on the device alone.\n\n"
    )
    skipped = sum(1 for r in built if r[1] == "skipped")
    out.append(
        f"{len(rows)} samples, {len(built)} of them built, {len(built) - len(counted) - skipped} of these excluded (`tests/samples/exclusions.tsv`), "
        f"{skipped} skipped as in the repository's own tests; "
        f"of the other {len(counted)}, {len(good)} pass ({100 * len(good) / max(1, len(counted)):.1f} %). "
        f"{len(seen)} of these fail by their own check on the dry device, which executes nothing.\n\n"
    )
    out.append("| sample | result | s | noticed | note |\n|---|---|---|---|---|\n")
    for name, result, wall_s, noticed, note in rows:
        if result == "not built":
            continue
        if name in excluded and result != "pass":
            result, note = f"excluded ({result})", excluded[name]
        out.append(f"| {name} | {result} | {wall_s} | {noticed} | {note.replace('|', '/')} |\n")
    lacking = collections.defaultdict(list)
    for row in rows:
        if row[1] == "not built":
            lacking[row[4]].append(row[0])
    if lacking:
        out.append(f"\n| not built ({sum(map(len, lacking.values()))}) | samples |\n|---|---|\n")
        out += [
            f"| {cause} | {', '.join(sorted(names))} |\n"
            for cause, names in sorted(lacking.items())
        ]
    if left:
        out.append(f"\nNot run so far ({len(left)}): {', '.join(left)}.\n")
    return "".join(out)


def kept_rows():
    return (
        {line.split("\t")[0]: line.split("\t") for line in ROWS.read_text().splitlines()}
        if ROWS.exists()
        else {}
    )


def keep(rows, left):
    ROWS.write_text("".join("\t".join(row) + "\n" for row in rows))
    PAGE.write_text(wrap_markdown.wrap(page(rows, sorted(left))))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/samples-device")
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--limit", type=int, default=300, help="seconds of processor time that one run may take"
    )
    parser.add_argument(
        "--only", default="", help="comma list of names; other samples' kept rows stay"
    )
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.samples, args.build, args.out = (
        args.samples.resolve(),
        args.build.resolve(),
        args.out.resolve(),
    )
    args.toolkit = pathlib.Path(args.nvcc).resolve().parents[1]
    (args.out / "src").mkdir(parents=True, exist_ok=True)
    if not args.no_build:
        build(args)
    kept, only = kept_rows(), set(filter(None, args.only.split(",")))
    found = list(samples(args))
    for name, folder in found:
        if not only or name in only:
            kept[name] = [name, *map(str, measure(args, name, program_of(name, folder)))]
            print("\t".join(kept[name]), flush=True)
            if args.keep:
                keep(
                    [kept[one] for one, _ in found if one in kept],
                    [one for one, _ in found if one not in kept],
                )
    rows = [kept[one] for one, _ in found if one in kept]
    bad = [
        row[0]
        for row in rows
        if row[1] not in ("pass", "not built", "skipped") and row[0] not in exclusions()
    ]
    print(f"{len(bad)} fail{': ' if bad else ''}{', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
