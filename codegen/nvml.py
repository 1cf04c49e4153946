#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates NVML's C entries, questions and answers from nvml.h and spec/nvml.yaml. docs/internals/codegen.md says how to add one."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import yaml

import ids as id_list
import outputs
import parse_headers
import wrap_markdown
from files import write_if_changed
from model import ApiModel, Function, Param

ROOT = Path(__file__).resolve().parent.parent
CODEGEN = Path(__file__).resolve().parent
IDS = CODEGEN / "ids" / "nvml.ids"
SPEC = CODEGEN / "spec" / "nvml.yaml"
COVERAGE = ROOT / "docs/reference/coverage-nvml.md"

CLASSES = ("local", "fixed", "sampled", "tenant", "live")
KEYS = {"client", "server", "seed", "args"}
GROUP_KEYS = {"reason", "class", "calls"}
NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED


class NvmlError(Exception):
    pass


@dataclass(frozen=True)
class Plan:
    """How one parameter travels. `kind`: device, in, out, versioned, text, length, items, count, inout."""

    name: str
    type: str  # of the value, or of what the pointer points to
    kind: str
    extent: str = ""  # of text: the parameter or number of bytes; of items and inout: the count


@dataclass
class Call:
    function: Function
    klass: str
    reason: str = ""
    client: str = "generated"
    server: str = "generated"
    plans: list[Plan] = field(default_factory=list)
    seeds: list[list[int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def asks(self) -> bool:
        return self.klass in CLASSES[1:]

    @property
    def has_device(self) -> bool:
        return any(param.type == "nvmlDevice_t" for param in self.function.params)

    def of_kind(self, *kinds: str) -> list[Plan]:
        return [plan for plan in self.plans if plan.kind in kinds]

    @property
    def native_arguments(self) -> list[str]:
        """What the server hands to the real function; text, items and records have room of their own there."""
        spelled = {
            "out": "&{0}",
            "versioned": "{0}.get()",
            "text": "{0}.data()",
            "length": "kTextBytes",
        }
        spelled |= {"items": "{0}", "count": "{0}", "inout": "{0}.data()"}
        return [spelled.get(plan.kind, "{0}").format(plan.name) for plan in self.plans]


class NvmlSpec:
    def __init__(self, model: ApiModel, data: dict, file: str = SPEC.name):
        self.model, self.file = model, file
        self.calls: dict[str, Call] = {}
        for group in data["groups"]:
            self._known_keys(group, GROUP_KEYS, group.get("reason", "a group"))
            for name, row in group["calls"].items():
                self._add(name, row or {}, group)
        for klass in ("denied", "unsupported"):
            for name in str(data.get(klass, "")).split():
                self._put(Call(self._function(name), klass, client="none", server="none"))
        missing = sorted(set(model.functions) - set(self.calls))
        if missing:
            raise NvmlError(
                f"{file}: no entry for {', '.join(missing)}: describe it under groups, or list it under denied or "
                "unsupported"
            )

    def _known_keys(self, row: dict, keys: set[str], what: str) -> None:
        unknown = sorted(set(row) - keys)
        if unknown:
            raise NvmlError(
                f"{self.file}: {what}: unknown key '{unknown[0]}', one of {', '.join(sorted(keys))}"
            )

    def _function(self, name: str) -> Function:
        if name not in self.model.functions:
            raise NvmlError(f"{self.file}: {name}: the header declares no such function")
        return self.model.functions[name]

    def _put(self, call: Call) -> None:
        if call.name in self.calls:
            raise NvmlError(f"{self.file}: {call.name} is described twice")
        self.calls[call.name] = call

    def _add(self, name: str, row: dict, group: dict) -> None:
        self._known_keys(row, KEYS, name)
        klass = group.get("class", "")
        if klass not in CLASSES:
            raise NvmlError(
                f"{self.file}: {group['reason']}: class '{klass}', one of {', '.join(CLASSES)}"
            )
        call = Call(self._function(name), klass, group["reason"])
        if klass == "local":
            call.client, call.server = "hand", "none"
            return self._put(call)
        call.client, call.server = row.get("client", "generated"), row.get("server", "generated")
        notes = row.get("args", {})
        stray = sorted(set(notes) - {param.name for param in call.function.params})
        if stray:
            raise NvmlError(f"{self.file}: {name}: no parameter '{stray[0]}'")
        if "generated" in (call.client, call.server) and call.server != "hand":
            call.plans = self._plans(call.function, notes)
        seed = row.get("seed", [])
        call.seeds = [[]] if seed is True else seed
        self._put(call)

    def _plans(self, function: Function, notes: dict[str, str]) -> list[Plan]:
        extents = {
            re.search(r"\((\w+)\)", str(note))[1]: str(note).split("(")[0]
            for note in notes.values()
        }
        return [
            self._plan(function, param, str(notes.get(param.name, "")), extents)
            for param in function.params
        ]

    def _plan(self, function: Function, param: Param, note: str, extents: dict[str, str]) -> Plan:
        where = f"{self.file}: {function.name}({param.type} {param.name})"
        canonical = self.model.canonical(param.type)
        if canonical == "nvmlDevice_st *":
            return Plan(param.name, "nvmlDevice_t", "device")
        if not canonical.endswith("*"):
            kind = "length" if extents.get(param.name) == "text" else "in"
            return Plan(param.name, param.type, kind)
        pointee = param.type.rstrip("* ").replace("const ", "").strip()
        if note:
            kind, extent = re.fullmatch(r"(\w+)\((\w+)\)", note).groups()
            if kind not in ("text", "items", "inout"):
                raise NvmlError(f"{where}: role '{kind}', one of text, items, inout")
            return Plan(param.name, pointee, kind, extent)
        if extents.get(param.name) == "items":
            return Plan(param.name, pointee, "count")
        record = self.model.records.get(canonical.rstrip("* "))
        if record is not None and record.complete:
            self._without_pointers(record.name, where)
            versioned = record.fields and record.fields[0].name == "version"
            return Plan(param.name, pointee, "versioned" if versioned else "out")
        if record is not None:
            raise NvmlError(f"{where}: a handle of a kind that does not travel")
        if (
            canonical.count("*") > 1
            or "char" in canonical
            or "void" in canonical
            or param.type.startswith("const")
        ):
            raise NvmlError(
                f"{where}: nobody classified this pointer: text(length), items(count) or inout(count)?"
            )
        return Plan(param.name, pointee, "out")

    def _without_pointers(self, record: str, where: str) -> None:
        for member in self.model.records[record].fields:
            canonical = self.model.canonical(member.type)
            if "*" in canonical:
                raise NvmlError(
                    f"{where}: {record}.{member.name} is a pointer, which means nothing elsewhere"
                )
            inner = canonical.split("[")[0].strip()
            if inner in self.model.records:
                self._without_pointers(inner, where)


# ---- the generated files


@dataclass
class Inputs:
    spec: NvmlSpec
    ids: dict[str, int]

    def calls(self) -> list[Call]:
        """By id; a name that this header lacks is left out."""
        return [self.spec.calls[name] for name in self.ids if name in self.spec.calls]


def _declaration(function: Function) -> str:
    params = [f"{param.type.replace(' *', '*')} {param.name}" for param in function.params]
    return outputs.wrap(f"NVML_ENTRY {function.name}(", params, ") {")


def _template(name: str) -> Callable[[Inputs], str]:
    return lambda inputs: outputs.render(
        name, calls=inputs.calls(), ids=inputs.ids, declaration=_declaration, wrap=outputs.wrap
    )


def _names(inputs: Inputs) -> list[str]:
    return sorted(inputs.spec.calls)


OUTPUTS: dict[str, Callable[[Inputs], str]] = {
    "proto/nvml_call.h": _template("nvml_call.h.j2"),
    "client/nvml_entries.cc": _template("nvml_entries.cc.j2"),
    "client/nvml_seeds.inc": _template("nvml_seeds.inc.j2"),
    "server/nvml_api.h": _template("nvml_api.h.j2"),
    "server/nvml_answers.cc": _template("nvml_answers.cc.j2"),
    "cpu-device/nvml_default_entries.cc": lambda inputs: outputs.render(
        "default_entries.cc.j2",
        names=_names(inputs),
        source="nvml.ids",
        not_supported=NOT_SUPPORTED,
    ),
    "nvml_exports.map": lambda inputs: outputs.render("exports.map.j2", names=_names(inputs)),
}


def coverage(inputs: Inputs) -> str:
    calls = sorted(inputs.calls(), key=lambda call: call.name)
    return wrap_markdown.wrap(outputs.render("coverage_nvml.md.j2", calls=calls))


def load(include: Path, model_cache: Path, clang: str | None = None) -> Inputs:
    model = parse_headers.load_model(include, model_cache, clang, parse_headers.NVML)
    ids = id_list.load_ids(IDS)
    missing = sorted(set(model.functions) - set(ids))
    if missing:
        raise NvmlError(f"no id for {', '.join(missing)}: run codegen/nvml.py --add-ids")
    return Inputs(NvmlSpec(model, yaml.safe_load(SPEC.read_text())), ids)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, help="folder of nvml.h")
    parser.add_argument("--out", type=Path, help="folder of the generated tree")
    parser.add_argument("--stamp", type=Path, help="touch when done")
    parser.add_argument(
        "--list", action="store_true", help="print the generated files, separated by ';'"
    )
    parser.add_argument(
        "--add-ids", action="store_true", help="append ids for new names of the header"
    )
    parser.add_argument("--check", action="store_true", help="fail if the coverage page is stale")
    parser.add_argument("--update", action="store_true", help="write the coverage page")
    arguments = parser.parse_args()
    if arguments.list:
        print(";".join(OUTPUTS))
        return 0
    cache = arguments.out / "nvml_model.json"
    try:
        if arguments.add_ids:
            model = parse_headers.load_model(arguments.include, cache, None, parse_headers.NVML)
            print(f"{len(id_list.append_ids(IDS, sorted(model.functions)))} ids added")
            return 0
        inputs = load(arguments.include, cache)
    except (NvmlError, id_list.IdError, parse_headers.ParseError) as error:
        print(f"codegen: {error}", file=sys.stderr)
        return 1
    if arguments.update:
        write_if_changed(COVERAGE, coverage(inputs))
    elif arguments.check:
        if not COVERAGE.is_file() or COVERAGE.read_text() != coverage(inputs):
            print(
                f"codegen: {COVERAGE.name} is stale: run codegen/nvml.py --update", file=sys.stderr
            )
            return 1
    else:
        for path, render in OUTPUTS.items():
            write_if_changed(arguments.out / path, render(inputs))
        if arguments.stamp:
            arguments.stamp.write_text("")
    return 0


if __name__ == "__main__":
    sys.exit(main())
