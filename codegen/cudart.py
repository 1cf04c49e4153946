#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the thin libcudart's C entries from cuda_runtime_api.h and spec/cudart.yaml. docs/internals/codegen.md says how to add one."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable

import yaml

import outputs
import parse_headers
import wrap_markdown
from files import write_if_changed
from model import ApiModel, Function

ROOT = Path(__file__).resolve().parent.parent
CODEGEN = Path(__file__).resolve().parent
SPEC = CODEGEN / "spec" / "cudart.yaml"
EXPORTS = CODEGEN / "cudart"
COVERAGE = ROOT / "docs/reference/coverage-thin-cudart.md"
STRINGS = CODEGEN / "cudart" / "error_strings.yaml"

RUNTIME = parse_headers.Library(
    ("cuda_runtime_api.h", "cuda_profiler_api.h"),
    (),
    "__CUDA_API_VERSION_INTERNAL",
    "^cuda[A-Z]",
    "cudaMalloc",
)
BEFORE = {"none": "kNone", "driver": "kDriver", "context": "kContext"}
MAJOR = "13"  # of the headers
OLDER = ("12",)


class CudartError(Exception):
    pass


@dataclass
class Entry:
    """One exported name. `klass`: lowered, hand, exported or refused."""

    name: str  # with _ptsz or _ptds
    base: str
    klass: str
    before: str = ""
    body: str = ""  # the expression that the entry evaluates
    note: str = ""  # the driver's call, the file, or the reason
    function: Function | None = None

    @property
    def side(self) -> str:
        return self.name[len(self.base) + 1 :]


class CudartSpec:
    def __init__(
        self, model: ApiModel, driver: ApiModel, data: dict, exports: dict[str, list[str]]
    ):
        self.model, self.driver = model, driver
        self.rows: dict[str, Entry] = {}
        for before, calls in data["lowered"].items():
            for name, call in calls.items():
                self._put(
                    Entry(name, name, "lowered", self._before(before), call, call.split("(")[0])
                )
        for before, files in data["hand"].items():
            for file, names in files.items():
                for name in names.split():
                    self._put(Entry(name, name, "hand", self._before(before), "", f"{file}.cc"))
        for file, names in data["exported"].items():
            for name in names.split():
                self._put(Entry(name, name, "exported", note=f"{file}.cc"))
        for group in data["refused"]:
            for name in group["calls"].split():
                self._put(Entry(name, name, "refused", note=group["reason"]))
        self.entries = [self._entry(name) for name in exports[MAJOR]]
        self.older = {
            major: self._older(major, data["majors"][int(major)], exports[major]) for major in OLDER
        }
        unused = sorted(
            set(self.rows) - {entry.base for entry in self.entries} - set(exports[MAJOR])
        )
        if unused:
            raise CudartError(f"{SPEC.name}: no library exports {', '.join(unused)}")

    def _before(self, word: str) -> str:
        if word not in BEFORE:
            raise CudartError(f"{SPEC.name}: '{word}', one of {', '.join(BEFORE)}")
        return BEFORE[word]

    def _put(self, entry: Entry) -> None:
        if entry.name in self.rows:
            raise CudartError(f"{SPEC.name}: {entry.name} is described twice")
        self.rows[entry.name] = entry

    def _entry(self, name: str) -> Entry:
        base = re.sub(r"_pt[ds][sz]$", "", name)
        row = self.rows.get(name) or self.rows.get(base)
        if row is None:
            raise CudartError(
                f"{SPEC.name}: no entry for {name}: lower it, write it by hand or refuse it"
            )
        entry = Entry(
            name,
            row.name,
            row.klass,
            row.before,
            row.body,
            row.note,
            self.model.functions.get(name),
        )
        if entry.klass in ("lowered", "hand"):
            if entry.function is None:
                raise CudartError(f"{SPEC.name}: {name}: the headers declare no such function")
            entry.body = self._lowered(entry) if entry.klass == "lowered" else self._by_hand(entry)
        return entry

    def _older(self, major: str, deltas: dict, exports: list[str]) -> list[Entry]:
        """The entries of a major whose headers are not here."""
        rows = {
            name: Entry(name, name, "exported", note=f"major{major}.cc")
            for name in deltas["exported"].split()
        }
        for group in deltas["refused"]:
            rows.update(
                {
                    name: Entry(name, name, "refused", note=group["reason"])
                    for name in group["calls"].split()
                }
            )
        entries = []
        for name in exports:
            base = re.sub(r"_pt[ds][sz]$", "", name)
            if name in rows:
                entries.append(rows.pop(name))
            elif base in deltas["same"]:
                entry = self._entry(deltas["same"][base] + name[len(base) :])
                entries.append(replace(entry, name=name, base=base))
            else:
                entries.append(self._entry(name))
        if rows:
            raise CudartError(
                f"{SPEC.name}: libcudart.so.{major} exports no {', '.join(sorted(rows))}"
            )
        return entries

    def _argument(self, entry: Entry, param) -> str:
        own = entry.side and self.model.canonical(param.type) == "CUstream_st *"
        return f"PerThread({param.name})" if own else param.name

    def _lowered(self, entry: Entry) -> str:
        found = re.fullmatch(r"(cu\w+)(?:\((.*)\))?", entry.body)
        if not found or found[1] not in self.driver.functions:
            raise CudartError(
                f"{SPEC.name}: {entry.name}: '{entry.body}': no such call of the driver"
            )
        call = found[1]
        if entry.side == "ptds":
            call += "_ptds"
        arguments = [self._argument(entry, param) for param in entry.function.params]
        if found[2] is not None:
            arguments = [word.strip() for word in found[2].split(",")]
        return f"Lower({', '.join([f'g_driver.{call}', *arguments])})"

    def _by_hand(self, entry: Entry) -> str:
        arguments = [self._argument(entry, param) for param in entry.function.params]
        if self.sided(entry.base):
            arguments.insert(0, "Side::kPerThread" if entry.side else "Side::kLegacy")
        return f"Call_{entry.base}({', '.join(arguments)})"

    def sided(self, base: str) -> bool:
        """Has a form per thread, and no stream to tell it by."""
        forms = [self.model.functions.get(f"{base}_{side}") for side in ("ptds", "ptsz")]
        form = forms[0] or forms[1]
        return form is not None and not any(
            self.model.canonical(param.type) == "CUstream_st *" for param in form.params
        )

    def hand(self) -> list[Function]:
        names = {entry.base for entry in self.entries if entry.klass == "hand"}
        return [self.model.functions[name] for name in sorted(names)]


def parameters(function: Function, first: str = "") -> str:
    params = [f"{param.type} {param.name}" for param in function.params]
    return ", ".join(([first] if first else []) + params)


@dataclass
class Inputs:
    spec: CudartSpec
    strings: dict[int, str]

    def errors(self) -> list[tuple[int, str, str]]:
        rows = sorted((value, name) for name, value in self.spec.model.enums["cudaError"].items())
        missing = [name for value, name in rows if value not in self.strings]
        if missing:
            raise CudartError(f"{STRINGS.name}: no text for {', '.join(missing)}")
        return [(value, name, self.strings[value]) for value, name in rows]


def _template(name: str) -> Callable[[Inputs], str]:
    return lambda inputs: outputs.render(
        name,
        spec=inputs.spec,
        errors=inputs.errors(),
        parameters=parameters,
        driver_names=[f.name for f in inputs.spec.driver.functions.values() if not f.graphics],
    )


def _entries(of: Callable[[CudartSpec], list[Entry]]) -> Callable[[Inputs], str]:
    return lambda inputs: outputs.render(
        "cudart_entries.cc.j2", entries=of(inputs.spec), parameters=parameters
    )


def export_names(major: str) -> list[str]:
    return (EXPORTS / f"libcudart.so.{major}.txt").read_text().split()


def exports_map(major: str) -> Callable[[Inputs], str]:
    names = "".join(f"    {name};\n" for name in export_names(major))
    text = f"# SPDX-License-Identifier: Apache-2.0\nlibcudart.so.{major}\n{{\n  global:\n{names}  local: *;\n}};\n"
    return lambda inputs: text.replace(f"{major}\n{{", f"{major} {{")


OUTPUTS: dict[str, Callable[[Inputs], str]] = {
    "cudart/driver_api.h": _template("cudart_driver_api.h.j2"),
    "cudart/driver_api.cc": _template("cudart_driver_api.cc.j2"),
    "cudart/hand.h": _template("cudart_hand.h.j2"),
    "cudart/entries_13.cc": _entries(lambda spec: spec.entries),
    "cudart/entries_12.cc": _entries(lambda spec: spec.older["12"]),
    "cudart/error_names.inc": _template("cudart_errors.inc.j2"),
    "cudart/libcudart.so.13.map": exports_map("13"),
    "cudart/libcudart.so.12.map": exports_map("12"),
}


def coverage(inputs: Inputs) -> str:
    today = {entry.name: entry.note for entry in inputs.spec.entries}
    differing = [entry for entry in inputs.spec.older["12"] if today.get(entry.name) != entry.note]
    page = outputs.render(
        "coverage_cudart.md.j2", spec=inputs.spec, differing=differing, tests=tests_of()
    )
    return wrap_markdown.wrap(page)


def tests_of() -> dict[str, str]:
    """Name -> what calls it, of the tests' sources."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "tests" / "thin").glob("cudart*/**/*.c*")):
        for name in sorted(set(re.findall(r"\b_*cuda[A-Z]\w+", path.read_text()))):
            found.setdefault(name, path.stem)
    return found


def load(include: Path, out: Path, clang: str | None = None) -> Inputs:
    model = parse_headers.load_model(include, out / "cudart_model.json", clang, RUNTIME)
    driver = parse_headers.load_model(include, out / "model.json", clang)
    spec = CudartSpec(
        model,
        driver,
        yaml.safe_load(SPEC.read_text()),
        {major: export_names(major) for major in (MAJOR, *OLDER)},
    )
    return Inputs(spec, yaml.safe_load(STRINGS.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, help="folder of cuda_runtime_api.h")
    parser.add_argument("--out", type=Path, help="folder of the generated tree")
    parser.add_argument("--stamp", type=Path, help="touch when done")
    parser.add_argument(
        "--list", action="store_true", help="print the generated files, separated by ';'"
    )
    parser.add_argument("--check", action="store_true", help="fail if the coverage page is stale")
    parser.add_argument("--update", action="store_true", help="write the coverage page")
    arguments = parser.parse_args()
    if arguments.list:
        print(";".join(OUTPUTS))
        return 0
    try:
        inputs = load(arguments.include, arguments.out)
        if arguments.update:
            write_if_changed(COVERAGE, coverage(inputs))
        elif arguments.check:
            if not COVERAGE.is_file() or COVERAGE.read_text() != coverage(inputs):
                raise CudartError(f"{COVERAGE.name} is stale: run codegen/cudart.py --update")
        else:
            for path, render in OUTPUTS.items():
                write_if_changed(arguments.out / path, render(inputs))
            if arguments.stamp:
                arguments.stamp.write_text("")
    except (CudartError, parse_headers.ParseError) as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
