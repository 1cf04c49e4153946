#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates C++ from CUDA's headers and the spec. docs/internals/codegen.md says how to add a call."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

import committed
import ids as id_list
import outputs
import parse_headers
import procs
import spec as spec_file
from files import write_if_changed

ROOT = Path(__file__).resolve().parent.parent
CODEGEN = Path(__file__).resolve().parent
IDS = CODEGEN / "ids" / "cuda.ids"
EXPORTS = CODEGEN / "ids" / "cuda_exports.txt"
SPEC = CODEGEN / "spec" / "cuda.yaml"
PROC_OVERRIDES = CODEGEN / "spec" / "proc_overrides.yaml"


class GenerateError(Exception):
    pass


def main() -> int:
    arguments = _arguments()
    try:
        return _run(arguments)
    except (
        GenerateError,
        id_list.IdError,
        procs.ProcError,
        parse_headers.ParseError,
        spec_file.SpecError,
    ) as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, help="folder of cuda.h")
    parser.add_argument("--out", type=Path, help="folder of the generated tree")
    parser.add_argument(
        "--clang", help="clang++ to read the headers with (default: the first found)"
    )
    parser.add_argument(
        "--depfile", type=Path, help="write what the outputs depend on, for the build"
    )
    parser.add_argument("--stamp", type=Path, help="touch when done")
    parser.add_argument(
        "--add-ids", action="store_true", help="append ids for new names of the headers and stop"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="fail if goldens or the coverage page are stale, and stop",
    )
    parser.add_argument(
        "--update", action="store_true", help="write goldens and the coverage page, and stop"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the generated files, separated by ';', and stop"
    )
    arguments = parser.parse_args()
    if not arguments.list and not (arguments.include and arguments.out):
        parser.error("--include and --out are needed")
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print(";".join(outputs.OUTPUTS))
        return 0
    model = parse_headers.load_model(
        arguments.include, arguments.out / "model.json", arguments.clang
    )
    if arguments.add_ids:
        return _add_ids(model)
    inputs = _load(model)
    if arguments.check or arguments.update:
        return _committed(inputs, arguments.update)
    for path, render in outputs.OUTPUTS.items():
        write_if_changed(arguments.out / path, render(inputs))
    if arguments.depfile:
        _write_depfile(arguments.depfile, arguments.stamp, model.headers)
    if arguments.stamp:
        arguments.stamp.write_text("")
    return 0


def _add_ids(model) -> int:
    added = id_list.append_ids(IDS, sorted(model.functions))
    EXPORTS.write_text("".join(f"{name}\n" for name in sorted(id_list.load_ids(IDS))))
    print(f"{len(added)} ids added" + (f": {', '.join(added)}" if added else ""))
    return 0


def _committed(inputs: outputs.Inputs, update: bool) -> int:
    """Compares the committed copies with what would be generated, or writes them."""
    stale = []
    for path, render in committed.COMMITTED.items():
        text = render(inputs)
        if update:
            write_if_changed(ROOT / path, text)
        elif not (ROOT / path).is_file() or (ROOT / path).read_text() != text:
            stale.append(path)
    if stale:
        raise GenerateError(
            f"{', '.join(stale)} differ from what the spec and templates give: look at the change, then run "
            "codegen/generate.py --update"
        )
    return 0


def _load(model) -> outputs.Inputs:
    ids = id_list.load_ids(IDS)
    missing = sorted(set(model.functions) - set(ids))
    if missing:
        raise GenerateError(f"no id for {', '.join(missing)}: run codegen/generate.py --add-ids")
    if EXPORTS.read_text().split() != sorted(ids):
        raise GenerateError(
            f"{EXPORTS.name} is not the names of {IDS.name}: run codegen/generate.py --add-ids"
        )
    overrides = yaml.safe_load(PROC_OVERRIDES.read_text()) or {}
    return outputs.Inputs(
        model, ids, procs.proc_rows(model, overrides), spec_file.load_spec(SPEC, model)
    )


def _write_depfile(depfile: Path, stamp: Path, headers: list[str]) -> None:
    own = [
        path
        for pattern in ("*.py", "templates/**/*", "spec/**/*.yaml", "ids/*")
        for path in CODEGEN.glob(pattern)
    ]
    paths = [str(path) for path in own if path.is_file()] + headers
    depfile.write_text(
        f"{stamp}: " + " \\\n  ".join(path.replace(" ", "\\ ") for path in sorted(paths)) + "\n"
    )


if __name__ == "__main__":
    sys.exit(main())
