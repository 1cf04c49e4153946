#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the client's and the server's side of the mathematics libraries. docs/reference/thin.md says how to add one."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import yaml

import first_api
import ids as id_list
import outputs
import parse_headers
import wrap_markdown
from files import write_if_changed
from library_spec import CODEGEN, PLAIN, Call, LibraryError, LibrarySpec, Plan

ROOT = CODEGEN.parent
COVERAGE = ROOT / "docs/reference/coverage-thin.md"
LIBRARIES = sorted(path.stem for path in (CODEGEN / "spec" / "thin").glob("*.yaml"))


def exports(name: str, major: int) -> list[str]:
    path = CODEGEN / "exports" / f"{name}.{major}.txt"
    return [line for line in path.read_text().split() if not line.startswith("#")]


def files(spec: LibrarySpec) -> dict[str, str]:
    """Path below build/generated -> template."""
    out = {
        f"proto/{spec.name}_call.h": "library_call.h.j2",
        f"client/{spec.name}_entries.cc": "library_entries.cc.j2",
        f"server/{spec.name}_calls.cc": "library_serve.cc.j2",
        f"tests/{spec.name}_fake.cc": "library_fake.cc.j2",
        f"tests/{spec.name}_makers.cc": "library_makers.cc.j2",
    }
    if spec.first_header:
        out[f"client/{spec.name}_first.cc"] = "library_first.cc.j2"
    for major in spec.sonames:
        out[f"client/{spec.name}_{major}_refused.cc"] = "library_refused.cc.j2"
        out[f"{spec.name}_{major}_exports.map"] = "library_exports.map.j2"
    return out


def declaration(call: Call) -> str:
    params = []
    for param in call.function.params:
        if "[]" in param.type:
            params.append(param.type.replace("[]", f"{param.name}[]"))
        else:
            params.append(f"{param.type.replace(' *', '*')} {param.name}")
    return outputs.wrap(f"LIBRARY_ENTRY {call.name}(", params, ") {")


def pointer(call: Call) -> str:
    """Spelled, as C++ overloads may stand beside the C function."""
    types = ", ".join(param.type for param in call.function.params)
    return f"{call.function.returns} (*)({types})"


def sized(call: Call, plan: Plan) -> bool:
    """Whether it is an array whose extent follows from the record's plain values alone."""
    if plan.kind in (*PLAIN, "convert"):
        return False
    values = {other.name for other in call.plans if other.kind == "value"}
    others = {other.name for other in call.plans} - values
    return (
        not (set(re.findall(r"\w+", plan.extent)) & (others | {"call"})) and "$" not in plan.extent
    )


def render(spec: LibrarySpec, path: str, template: str) -> str:
    calls = [call for call in spec.by_id() if call is not None]
    values = {
        "spec": spec,
        "calls": calls,
        "rows": spec.by_id(),
        "declaration": declaration,
        "pointer": pointer,
        "sized": sized,
        "wrap": outputs.wrap,
    }
    if template == "library_first.cc.j2":
        values["rows"] = first_api.rows(spec.first, spec.model)
    if template in ("library_refused.cc.j2", "library_exports.map.j2"):
        major = int(path.split("_exports")[0].split("_refused")[0].rsplit("_", 1)[1])
        names = exports(spec.name, major)
        there = {call.name for call in calls if call.how != "refused"}
        values["soname"] = spec.sonames[major]
        values["names"] = sorted(set(names))
        values["refused"] = sorted(name for name in set(names) - there if not spec.by_hand(name))
        values["major"] = major
    return outputs.render(template, **values)


def coverage(specs: list[LibrarySpec]) -> str:
    sections = []
    for spec in specs:
        newest = max(spec.sonames)
        declared = set(spec.model.functions)
        unknown = sorted(
            name
            for name in exports(spec.name, newest)
            if name not in declared and not spec.by_hand(name)
        )
        sections.append(
            {
                "spec": spec,
                "calls": sorted(spec.calls.values(), key=lambda c: c.name),
                "tier3": unknown,
            }
        )
    return wrap_markdown.wrap(outputs.render("coverage_thin.md.j2", sections=sections))


def _load(name: str, arguments: argparse.Namespace) -> LibrarySpec:
    cache = arguments.out / f"{name}_model.json"
    return LibrarySpec(CODEGEN / "spec" / "thin" / f"{name}.yaml", arguments.include, cache)


def _add_ids(name: str, arguments: argparse.Namespace) -> None:
    path = CODEGEN / "ids" / f"{name}.ids"
    if not path.exists():
        id_list.append_ids(path, [])
    data_only = LibrarySpec.__new__(LibrarySpec)
    data_only.data = yaml.safe_load((CODEGEN / "spec" / "thin" / f"{name}.yaml").read_text())
    library = parse_headers.Library(
        tuple(data_only.data["headers"]), (), "FARCALL_READS_HEADERS", data_only.data["functions"],
        data_only.data["first"],
    )  # fmt: skip
    model = parse_headers.load_model(
        arguments.include, arguments.out / f"{name}_model.json", None, library
    )
    print(f"{name}: {len(id_list.append_ids(path, sorted(model.functions)))} ids added")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, help="folder of the headers")
    parser.add_argument("--out", type=Path, help="folder of the generated tree")
    parser.add_argument("--stamp", type=Path, help="touch when done")
    parser.add_argument("--library", help="this one only")
    parser.add_argument(
        "--list",
        action="store_true",
        help="print a line for each library: name, id, headers, majors, files",
    )
    parser.add_argument(
        "--add-ids", action="store_true", help="append ids for new names of the headers"
    )
    parser.add_argument("--check", action="store_true", help="fail if the coverage page is stale")
    parser.add_argument("--update", action="store_true", help="write the coverage page")
    arguments = parser.parse_args()
    names = [arguments.library] if arguments.library else LIBRARIES
    try:
        if arguments.list:
            for name in names:
                spec = LibrarySpec(CODEGEN / "spec" / "thin" / f"{name}.yaml", None, None)
                majors = ",".join(f"{major}" for major in spec.sonames)
                paths = ",".join(files(spec))
                print(
                    f"{name}|{','.join(spec.headers)}|{majors}|{paths}|{spec.file_name}|{spec.constant}"
                )
            return 0
        if arguments.add_ids:
            for name in names:
                _add_ids(name, arguments)
            return 0
        specs = [_load(name, arguments) for name in names]
        for spec in specs:
            missing = sorted(set(spec.model.functions) - set(spec.ids))
            if missing:
                raise LibraryError(
                    f"no id for {', '.join(missing)}: run codegen/libraries.py --add-ids"
                )
    except (LibraryError, id_list.IdError, parse_headers.ParseError) as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1
    if arguments.update or arguments.check:
        text = coverage(specs)
        if arguments.update:
            write_if_changed(COVERAGE, text)
        elif not COVERAGE.is_file() or COVERAGE.read_text() != text:
            print(
                f"codegen: {COVERAGE.name} is stale: run codegen/libraries.py --update",
                file=sys.stderr,
            )
            return 1
        return 0
    try:
        for spec in specs:
            for path, template in files(spec).items():
                write_if_changed(arguments.out / path, render(spec, path, template))
    except first_api.FirstApiError as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1
    if arguments.stamp:
        arguments.stamp.write_text("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
